// One connection of the HTTP server, and what connections share. Internal to the server.
//
// A connection that waits for its next request holds a socket and a few hundred bytes, no buffer:
// it waits for "readable" and reads into its loop's scratch memory. All of a connection's state is
// touched by its loop alone; requests that are not answered at once run on a
// worker and come back by post.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/time.h"
#include "net/http.h"
#include "net/http_answer.h"
#include "net/message_parser.h"
#include "net/open_files.h"
#include "net/worker_pool.h"

namespace flopwatch::net {

namespace asio = boost::asio;
using asio::ip::tcp;

inline constexpr size_t kScratchBytes = 64 << 10;

// What a connection waits for its client to do, in the order in which connections go when there are
// too many.
enum class Waiting : uint8_t { kForRequest, kForRest, kForReader };
inline constexpr size_t kWaitings = 3;

// One event loop and what its connections share.
struct ServerLoop {
  // `waiting` has a list for each kind, those that wait longest first.
  std::array<std::list<class ServerConnection*>, kWaitings> waiting;
  std::unordered_set<class ServerConnection*> connections;  // before `io`, which ends the last
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer sweep{io};
  std::vector<char> scratch = std::vector<char>(kScratchBytes);
  std::string date;  // of this second
  Micros date_second = -1;
  bool stopping = false;
  std::jthread thread;

  // Closes the connection whose client has kept it waiting longest; false where none does.
  bool Evict();
};

// Bytes of one body within those of all, given back at the end. One thread.
class HeldBytes {
 public:
  explicit HeldBytes(std::atomic<uint64_t>* all) : all_(*all) {}
  HeldBytes(const HeldBytes&) = delete;
  ~HeldBytes() { Hold(0); }
  // Returns what all connections hold then.
  uint64_t Hold(uint64_t bytes) {
    const uint64_t more = bytes - std::exchange(bytes_, bytes);  // wraps: a sum
    return all_.fetch_add(more, std::memory_order_relaxed) + more;
  }
  uint64_t bytes() const { return bytes_; }

 private:
  std::atomic<uint64_t>& all_;
  uint64_t bytes_ = 0;
};

// What all connections share.
struct ServerState {
  ServerState(ServerOptions o, AtOnce a, Handler w, Uploads u)
      : options(std::move(o)),
        at_once(std::move(a)),
        on_worker(std::move(w)),
        uploads(std::move(u)),
        pool(options.workers, options.max_queued),
        apart(options.is_apart ? options.apart_workers : 0, options.max_apart_queued),
        max_connections(std::max(
            1, static_cast<int>(std::min<uint64_t>(static_cast<uint64_t>(options.max_connections),
                                                   RaiseOpenFiles() / 2)))) {}

  const ServerOptions options;
  const AtOnce at_once;
  const Handler on_worker;
  const Uploads uploads;
  std::atomic<uint64_t> requests{0}, refused_connections{0}, evicted_connections{0},
      refused_requests{0}, timed_out{0};
  std::atomic<int> open{0};
  std::atomic<uint64_t> body_bytes{0};  // held by all connections
  WorkerPool pool, apart;
  const int max_connections;

  // Both answer 500 where the handler throws.
  std::optional<Response> AnswerAtOnce(const Request& request) const;
  Response AnswerOnWorker(const Request& request) const;
  // The same for a body that is packed still: it is unpacked here, on a worker, within what all
  // bodies may take.
  Response AnswerPacked(Request* request);
  // Counts a refusal.
  Response Refuse(int status, const Status& said);
};

// Shared ownership: the pending socket operation or the worker task it is in keeps it alive.
class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(ServerState* shared, ServerLoop* loop, tcp::socket socket);
  ~ServerConnection();
  void Start();

  // Ends at once, to make room.
  void Evict();

  // Called about once a second: ends what takes too long.
  void CheckDeadline(Micros now);

  // The server stops: idle connections close now, busy ones after their answer.
  void Stop();

 private:
  enum class State { kRead, kHandle, kWrite, kLinger };

  // Keeps the loop's lists of waiting connections.
  void WaitFor(Waiting what);
  void WaitNoMore();

  void BeginRequest();
  void WaitReadable();
  void OnReadable();
  void Parse(std::string_view data);

  // Reads what a header tells of a request; false when it is none we take (and is refused).
  bool ReadHead(Request* request);

  // Asks who takes this body; false when nobody does, and the request has been refused. The rest of
  // it is not read.
  bool OpenSink();

  // Ends what is done for a client that leaves before it has its answer.
  void WatchForEnd();

  // Hands what has arrived to the sink, on a worker: a disk may be slow. Nothing is read meanwhile.
  void SinkBody();
  void OnSunk(const Status& status);

  // Accounts for the body this connection holds now; false when all of them together are too large.
  bool HoldBody(size_t bytes);
  void RefuseUnparsed(ErrorCode ec);

  // Refuses what cannot be read further: answers and closes.
  void Refuse(int status, const Status& said);
  void RefuseKeepingConnection(int status, const Status& said);
  void HandleRequest();
  void Send(Response response);
  void Write();
  void OnWritten();

  // Assigning an empty string would keep the body's memory for as long as the connection idles.
  void ReleaseAnswer();

  // Closing with unread bytes would reset the connection and may take the answer with it.
  void Linger();
  void Close();
  std::string Remote();
  const std::string& Date();

  ServerState& shared_;
  ServerLoop& loop_;
  tcp::socket socket_;
  std::optional<RequestParser> parser_;
  std::shared_ptr<UploadSink> sink_;  // of this request, once its header is there
  std::optional<Waiting> waiting_;    // in that list of the loop, at `place_`
  std::list<ServerConnection*>::iterator place_;
  std::string rest_;  // bytes received and not parsed: an unfinished header, or the next request
  Response response_;
  std::string head_out_, remote_;
  Accepted accepted_;
  std::array<asio::const_buffer, 2> out_;
  size_t written_ = 0, lingered_ = 0;
  HeldBytes held_body_;
  std::optional<std::stop_source> gone_;  // of the request that is being handled, where it has one
  uint64_t handled_ = 0;                  // requests
  Micros deadline_ = 0;                   // monotonic; 0 = none (a handler has the request)
  State state_ = State::kRead;
  bool keep_alive_ = true, head_ = false, refused_ = false;
};

}  // namespace flopwatch::net
