R"cuda(
// Matrices whose strides cuBLAS cannot express: one thread for each element of c. The compiler defines IN and SUM.
struct MatmulArgs {
  i64 m, n, k, batch;
  const char *a, *b;
  char* c;
  i64 a_strides[3], b_strides[3], c_strides[3];  // in elements
  double alpha, beta;
};

extern "C" __global__ void __launch_bounds__(256) run(const MatmulArgs args) {
  FOR_EACH(element, (u64)(args.batch * args.m * args.n)) {
    const i64 column = (i64)(element % (u64)args.n), rows = (i64)(element / (u64)args.n);
    const i64 row = rows % args.m, batch = rows / args.m;
    const IN* a = (const IN*)args.a + batch * args.a_strides[0] + row * args.a_strides[1];
    const IN* b = (const IN*)args.b + batch * args.b_strides[0] + column * args.b_strides[2];
    SUM sum = 0;
    for (i64 l = 0; l < args.k; ++l) {
      sum += Dtype<IN>::load(a[l * args.a_strides[2]]) * Dtype<IN>::load(b[l * args.b_strides[1]]);
    }
    IN* c = (IN*)args.c + batch * args.c_strides[0] + row * args.c_strides[1] + column * args.c_strides[2];
    SUM result = (SUM)args.alpha * sum;
    if (args.beta != 0) result += (SUM)args.beta * Dtype<IN>::load(*c);
    *c = Dtype<IN>::store(result);
  }
}
)cuda"
