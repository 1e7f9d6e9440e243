#include "support.h"
#include "utf8.h"

#include <set>
#include <thread>
#include <utility>

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

TEST(Error, MessagesAreUtf8) {
  Stream stream;
  ASSERT_OK(launch(stream, [] { return std::string("bad \xff end"); }));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "bad ? end");
  // Longer than any buffer on the way, which cuts it at each offset in a character.
  for (const char* character : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"}) {
    for (size_t offset = 0; offset < 4; ++offset) {
      std::string text(offset, 'x');
      while (text.size() < 4096) text += character;
      const std::string name = text;
      const orKernel kernel = {name.c_str(), body_kernel().run, nullptr};
      Body body = [&] { return text; };
      Body* args = &body;
      EXPECT_EQ(run(stream, body), orErrorKernelFailed);
      EXPECT_TRUE(openreg::is_utf8(orGetLastErrorMessage())) << orGetLastErrorMessage();
      EXPECT_EQ(std::string(orGetLastErrorMessage()).find('?'), std::string::npos);
      EXPECT_EQ(orRunKernel(stream, &kernel, &args), orErrorKernelFailed);
      EXPECT_TRUE(openreg::is_utf8(orGetLastErrorMessage())) << orGetLastErrorMessage();
    }
  }
  static_cast<void>(orGetLastError());
}

TEST(Error, InvalidBytesAreReplaced) {
  const std::pair<std::string, std::string> cases[] = {
      {"", ""},
      {"abc", "abc"},
      {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
      {"a\xff", "a?"},
      {"a\xc3", "a"},          // cut
      {"a\xe2\x82", "a"},      // cut
      {"a\xf0\x9f\x98", "a"},  // cut
      {"a\xc3 b", "a? b"},     // not the end
      {"\xe2\x82 b", "?? b"},
      {"\x80", "?"},
      {"\xc0\xaf", "??"},            // an overlong '/'
      {"\xed\xa0\x80", "???"},       // a surrogate
      {"\xf4\x90\x80\x80", "????"},  // beyond the last code point
      {"\xe0\x80\x80", "???"},
  };
  for (const auto& [given, expected] : cases) {
    std::string text = given;
    openreg::make_utf8(text.data());
    EXPECT_EQ(std::string(text.c_str()), expected);
    EXPECT_EQ(openreg::is_utf8(given.c_str()), given == expected);
  }
}
