// One connection of the HTTP server, and what connections share. Internal to the server.
//
// A connection that waits for its next request holds a socket and a few hundred bytes, no buffer:
// it waits for "readable" and reads into its loop's scratch memory. All of a connection's state is
// touched by its loop alone; requests that are not answered at once run on a
// worker and come back by post.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstdint>
#include <memory>
#include <optional>
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
#include "net/worker_pool.h"

namespace flopwatch::net {

namespace asio = boost::asio;
using asio::ip::tcp;

inline constexpr size_t kScratchBytes = 64 << 10;

// One event loop and what its connections share.
struct ServerLoop {
  std::unordered_set<class ServerConnection*>
      connections;  // before `io`, whose end lets go of the last connections
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  asio::steady_timer sweep{io};
  std::vector<char> scratch = std::vector<char>(kScratchBytes);
  std::string date;  // of this second
  Micros date_second = -1;
  bool stopping = false;
  std::jthread thread;
};

// What all connections share.
struct ServerState {
  ServerState(ServerOptions o, AtOnce a, Handler w, Uploads u)
      : options(std::move(o)),
        at_once(std::move(a)),
        on_worker(std::move(w)),
        uploads(std::move(u)),
        pool(options.workers, options.max_queued) {}

  const ServerOptions options;
  const AtOnce at_once;
  const Handler on_worker;
  const Uploads uploads;
  std::atomic<uint64_t> requests{0}, refused_connections{0}, refused_requests{0}, timed_out{0};
  std::atomic<int> open{0};
  std::atomic<uint64_t> body_bytes{0};  // held by all connections
  WorkerPool pool;

  // Both answer 500 where the handler throws.
  std::optional<Response> AnswerAtOnce(const Request& request) const;
  Response AnswerOnWorker(const Request& request) const;
};

// Shared ownership: the pending socket operation or the worker task keeps it alive, whichever it is
// in.
class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(ServerState* shared, ServerLoop* loop, tcp::socket socket);
  ~ServerConnection();
  void Start();

  // Called about once a second: ends what takes too long.
  void CheckDeadline(Micros now);

  // The server stops: idle connections close now, busy ones after their answer.
  void Stop();

 private:
  enum class State { kRead, kHandle, kWrite, kLinger };

  void BeginRequest();
  void WaitReadable();
  void OnReadable();
  void Parse(std::string_view data);

  // What of a request is known from its header; false when it is no request we take (and it has
  // been refused).
  bool ReadHead(Request* request);

  // Asks who takes this body; false when nobody does, and the request has been refused. The rest of
  // it is not read.
  bool OpenSink();

  // Hands what has arrived to the sink, on a worker: a disk may make it wait. Nothing is read
  // meanwhile.
  void SinkBody();
  void OnSunk(const Status& status);

  // Accounts for the body this connection holds now; false when all of them together are too large.
  bool HoldBody(size_t bytes);
  void RefuseUnparsed(ErrorCode ec);

  // Refuses what cannot be read further: answers and closes.
  void Refuse(int status, std::string_view message);
  void RefuseKeepingConnection(int status, std::string_view message);
  void HandleRequest();
  void Send(Response response);
  void Write();
  void OnWritten();

  // Assigning an empty string would keep the memory of the body for as long as the connection
  // idles.
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
  std::string rest_;  // bytes received and not parsed: an unfinished header, or the next request
  Response response_;
  std::string head_out_, remote_;
  Accepted accepted_;
  std::array<asio::const_buffer, 2> out_;
  size_t written_ = 0, lingered_ = 0, held_body_ = 0;
  Micros deadline_ = 0;  // monotonic; 0 = none (a handler has the request)
  State state_ = State::kRead;
  bool keep_alive_ = true, head_ = false, refused_ = false;
};

}  // namespace flopwatch::net
