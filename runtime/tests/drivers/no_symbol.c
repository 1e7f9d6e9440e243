/* A library that is not a driver: orGetDriver is missing. */
__attribute__((visibility("default"))) int something_else(void) {
  return 1;
}
