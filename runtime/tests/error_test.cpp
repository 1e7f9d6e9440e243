#include "support.h"

#include <set>
#include <thread>

using namespace support;

TEST(Error, EveryCodeHasNameClassAndText) {
#define OR_CHECK_ERROR(name, number, class_, text) \
  EXPECT_EQ(static_cast<int>(name), number);       \
  EXPECT_STREQ(orGetErrorName(name), #name);       \
  EXPECT_STREQ(orGetErrorString(name), text);      \
  EXPECT_EQ(orGetErrorClass(name), class_);
  OR_ERRORS(OR_CHECK_ERROR)
#undef OR_CHECK_ERROR
}

TEST(Error, CodesAreUnique) {
  std::set<int> numbers;
#define OR_ADD_NUMBER(name, number, class_, text) EXPECT_TRUE(numbers.insert(number).second) << #name;
  OR_ERRORS(OR_ADD_NUMBER)
#undef OR_ADD_NUMBER
}

TEST(Error, UnknownCodesHaveANameAndText) {
  for (const int number : {-1, 17, 1000, INT32_MAX}) {
    EXPECT_STREQ(orGetErrorName(static_cast<orError_t>(number)), "orErrorUnknown");
    EXPECT_NE(orGetErrorString(static_cast<orError_t>(number)), nullptr);
  }
}

TEST(Error, GetLastErrorClearsTheError) {
  EXPECT_EQ(orGetDeviceCount(nullptr), orErrorInvalidValue);
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidValue);
  EXPECT_EQ(orPeekAtLastError(), orErrorInvalidValue);
  EXPECT_EQ(orGetLastError(), orErrorInvalidValue);
  EXPECT_EQ(orGetLastError(), orSuccess);
}

TEST(Error, SuccessKeepsTheLastError) {
  EXPECT_EQ(orSetDevice(-1), orErrorInvalidDevice);
  EXPECT_OK(orSetDevice(0));
  EXPECT_NE(std::string(orGetLastErrorMessage()).find("-1"), std::string::npos);
  EXPECT_EQ(orGetLastError(), orErrorInvalidDevice);
}

TEST(Error, LastErrorIsPerThread) {
  EXPECT_EQ(orSetDevice(-7), orErrorInvalidDevice);
  std::thread([] {
    EXPECT_EQ(orGetLastError(), orSuccess);
    EXPECT_STREQ(orGetLastErrorMessage(), "no error");
    EXPECT_EQ(orSetDevice(-8), orErrorInvalidDevice);
  }).join();
  EXPECT_NE(std::string(orGetLastErrorMessage()).find("-7"), std::string::npos);
  EXPECT_EQ(orGetLastError(), orErrorInvalidDevice);
}

TEST(Error, NotReadyIsNotRecordedAsLastError) {
  Stream stream;
  Gate gate;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  EXPECT_EQ(orPeekAtLastError(), orSuccess);
  EXPECT_STREQ(orGetLastErrorMessage(), orGetErrorString(orErrorNotReady));
  gate.open();
  EXPECT_OK(orStreamSynchronize(stream));
}
