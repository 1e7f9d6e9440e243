// Benchmarks of single API calls.
#include <openreg/openreg.h>

#include <benchmark/benchmark.h>

namespace {

const orKernel kNothing = {"nothing", [](void*, char*, size_t) { return orSuccess; }, nullptr};

void check(benchmark::State& state, orError_t error) {
  if (error != orSuccess) state.SkipWithError(orGetLastErrorMessage());
}

struct Args {
  char bytes[64];
};

void run_idle(benchmark::State& state) {
  orStream_t stream;
  check(state, orStreamCreate(&stream));
  Args args{};
  for (auto _ : state) check(state, orRunKernel(stream, &kNothing, &args));
  check(state, orStreamDestroy(stream));
}
BENCHMARK(run_idle);

void run_idle_default(benchmark::State& state) {
  Args args{};
  for (auto _ : state) check(state, orRunKernel(nullptr, &kNothing, &args));
}
BENCHMARK(run_idle_default);

// run_idle with a trace subscriber: the overhead of tracing.
void run_idle_traced(benchmark::State& state) {
  check(state, orTraceSubscribe([](const orTraceRecord*, void*) {}, nullptr));
  run_idle(state);
  check(state, orTraceUnsubscribe());
}
BENCHMARK(run_idle_traced);

// Batches of launches with one synchronization each, so that the queue stays short.
void launch_throughput(benchmark::State& state) {
  constexpr int kBatch = 256;
  orStream_t stream;
  check(state, orStreamCreate(&stream));
  Args args{};
  for (auto _ : state) {
    for (int i = 0; i < kBatch; ++i) check(state, orLaunchKernel(stream, &kNothing, &args, sizeof(args)));
    check(state, orStreamSynchronize(stream));
  }
  state.SetItemsProcessed(state.iterations() * kBatch);
  check(state, orStreamDestroy(stream));
}
BENCHMARK(launch_throughput)->UseRealTime();

void launch_synchronize(benchmark::State& state) {
  orStream_t stream;
  check(state, orStreamCreate(&stream));
  Args args{};
  for (auto _ : state) {
    check(state, orLaunchKernel(stream, &kNothing, &args, sizeof(args)));
    check(state, orStreamSynchronize(stream));
  }
  check(state, orStreamDestroy(stream));
}
BENCHMARK(launch_synchronize)->UseRealTime();

void record_wait_idle(benchmark::State& state) {
  orStream_t a, b;
  orEvent_t event;
  check(state, orStreamCreate(&a));
  check(state, orStreamCreate(&b));
  check(state, orEventCreateWithFlags(&event, orEventDisableTiming));
  for (auto _ : state) {
    check(state, orEventRecord(event, a));
    check(state, orStreamWaitEvent(b, event));
  }
  check(state, orEventDestroy(event));
  check(state, orStreamDestroy(a));
  check(state, orStreamDestroy(b));
}
BENCHMARK(record_wait_idle);

void allocate_free(benchmark::State& state) {
  for (auto _ : state) {
    void* pointer;
    check(state, orMalloc(&pointer, 4096));
    check(state, orFree(pointer));
  }
}
BENCHMARK(allocate_free);

}  // namespace
