#include "support.h"

extern "C" int c_api_works(void);

TEST(CApi, WorksFromC) {
  EXPECT_EQ(c_api_works(), 0);
}
