// Graphs; see Note [Graphs] in openreg.h.
#include "check.h"

#include <cstring>
#include <memory>

namespace openreg::check {
namespace {

void require_graphs(const orDriver& driver) {
  if (!driver.stream_begin_capture) throw Skipped{"no graphs"};
}

struct Graph {
  const orDriver& driver;
  orDriverGraph* graph = nullptr;
  size_t nodes = 0;
  ~Graph() {
    if (graph) static_cast<void>(driver.graph_destroy(graph));
  }
};

void replay(const orDriver& driver) {
  require_graphs(driver);
  const Stream stream(driver);
  const Memory memory(driver, 64);
  std::vector<int> seen;
  Graph made{driver};
  OK(driver.stream_begin_capture(stream, orCaptureGlobal));
  OK(launch(driver, stream, [&] { return seen.push_back(1), std::string(); }));
  OK(driver.stream_fill(stream, memory.get(), 5, 64, nullptr));
  OK(launch(driver, stream, [&] { return seen.push_back(2), std::string(); }));
  OK(driver.stream_end_capture(stream, &made.graph, &made.nodes));
  stream.synchronize();
  REQUIRE(seen.empty(), "captured work ran before the graph was launched");
  REQUIRE(made.nodes == 3, "the graph of 3 operations has %zu nodes", made.nodes);
  memory.write(std::vector<unsigned char>(64, 0));
  for (int i = 0; i < 3; ++i) OK(driver.graph_launch(made.graph, stream, nullptr));
  stream.synchronize();
  REQUIRE((seen == std::vector<int>{1, 2, 1, 2, 1, 2}),
          "three launches of a graph ran %zu kernels, of 6 in order", seen.size());
  REQUIRE(memory.read(64) == std::vector<unsigned char>(64, 5), "a fill in a graph did not run");
}

void nodes(const orDriver& driver) {
  require_graphs(driver);
  const Stream stream(driver);
  const Memory memory(driver, 64);
  Graph made{driver};
  OK(driver.stream_begin_capture(stream, orCaptureGlobal));
  OK(launch(driver, stream, [] { return std::string(); }));
  OK(driver.stream_fill(stream, memory.get(), 5, 64, nullptr));
  OK(driver.stream_end_capture(stream, &made.graph, &made.nodes));
  const orGraphNodeKind kinds[] = {orGraphNodeKernel, orGraphNodeMemset};
  for (size_t i = 0; i < made.nodes; ++i) {
    orGraphNode node{};
    node.struct_size = sizeof(node);
    OK(driver.graph_node(made.graph, i, &node));
    REQUIRE(node.kind == kinds[i] && node.name, "node %zu has the kind %d, not %d", i,
            static_cast<int>(node.kind), static_cast<int>(kinds[i]));
    REQUIRE(node.after_count == i && (i == 0 || node.after[0] == 0), "node %zu has %zu dependencies", i,
            node.after_count);
  }
}

void status(const orDriver& driver) {
  require_graphs(driver);
  const Stream stream(driver);
  orCaptureStatus found = orCaptureBroken;
  uint64_t id = 0;
  OK(driver.stream_capture_status(stream, &found, &id));
  REQUIRE(found == orCaptureNone, "a stream that is not captured has the capture status %d",
          static_cast<int>(found));
  OK(driver.stream_begin_capture(stream, orCaptureGlobal));
  OK(driver.stream_capture_status(stream, &found, &id));
  REQUIRE(found == orCaptureActive && id != 0, "a captured stream has the status %d and the ID %llu",
          static_cast<int>(found), static_cast<unsigned long long>(id));
  EXPECT(orErrorCapture, driver.stream_synchronize(stream));
  OK(driver.stream_capture_status(stream, &found, &id));
  REQUIRE(found == orCaptureBroken, "a capture in which the stream was synchronized has the status %d",
          static_cast<int>(found));
  Graph made{driver};
  EXPECT(orErrorCaptureInvalidated, driver.stream_end_capture(stream, &made.graph, &made.nodes));
  OK(driver.stream_capture_status(stream, &found, &id));
  REQUIRE(found == orCaptureNone, "the end of an invalid capture does not remove the stream from it");
}

void join(const orDriver& driver) {
  require_graphs(driver);
  const Stream first(driver), second(driver);
  const Event fork(driver), joined(driver);
  std::atomic<int> order{0};
  int at_first = 0, at_second = 0, at_last = 0;
  Graph made{driver};
  OK(driver.stream_begin_capture(first, orCaptureGlobal));
  OK(launch(driver, first, [&] { return at_first = ++order, std::string(); }));
  OK(driver.event_record(fork, first));
  OK(driver.stream_wait_event(second, fork));
  OK(launch(driver, second, [&] { return at_second = ++order, std::string(); }));
  OK(driver.event_record(joined, second));
  OK(driver.stream_wait_event(first, joined));
  OK(launch(driver, first, [&] { return at_last = ++order, std::string(); }));
  OK(driver.stream_end_capture(first, &made.graph, &made.nodes));
  OK(driver.graph_launch(made.graph, first, nullptr));
  first.synchronize();
  REQUIRE(at_first == 1 && at_second == 2 && at_last == 3,
          "the kernels of two captured streams ran in the order %d, %d, %d", at_first, at_second, at_last);
}

void lifetime(const orDriver& driver) {
  require_graphs(driver);
  auto alive = std::make_shared<int>(0);
  {
    const Stream stream(driver);
    Graph made{driver};
    OK(driver.stream_begin_capture(stream, orCaptureGlobal));
    OK(launch(driver, stream, [alive] { return ++*alive, std::string(); }));
    OK(driver.stream_end_capture(stream, &made.graph, &made.nodes));
    OK(driver.graph_launch(made.graph, stream, nullptr));
  }  // destroyed while its launch may be in progress
  OK(driver.device_synchronize(0));
  REQUIRE(*alive == 1, "the launch of a graph that was destroyed afterwards did not run");
  REQUIRE(alive.use_count() == 1, "a destroyed graph does not release its kernels");
}

constexpr Check kChecks[] = {
    {"graph-replay", "captured work runs at each launch of the graph, in order", &replay},
    {"graph-nodes", "graph_node describes the captured work", &nodes},
    {"graph-status", "a call that a capture does not permit invalidates it", &status},
    {"graph-join", "streams join a capture through events", &join},
    {"graph-lifetime", "a launch survives its graph, and the graph releases its kernels", &lifetime},
};

}  // namespace

std::span<const Check> graph_checks() {
  return kChecks;
}

}  // namespace openreg::check
