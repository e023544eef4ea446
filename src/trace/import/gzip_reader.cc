#include "trace/import/gzip_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include <fmt/format.h>

namespace flopwatch::trace {
namespace {

constexpr size_t kInputBytes = 256 << 10;
constexpr int kGzipWindow = 15 + 16;

class FileReader final : public ByteReader {
 public:
  FileReader(int fd, uint64_t size, std::string path, const WorkGuard* guard)
      : fd_(fd), size_(size), path_(std::move(path)), guard_(guard) {}
  ~FileReader() override { ::close(fd_); }

  StatusOr<size_t> Read(std::span<char> out) override {
    if (guard_ != nullptr && guard_->ended()) return guard_->status();
    size_t got = 0;
    while (got < out.size()) {
      const ssize_t n = ::read(fd_, out.data() + got, out.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) return Unavailable("cannot read {}: {}", path_, std::strerror(errno));
      if (n == 0) break;
      got += static_cast<size_t>(n);
    }
    read_ += got;
    return got;
  }
  uint64_t stored_bytes_read() const override { return read_; }
  uint64_t stored_bytes() const override { return size_; }

 private:
  int fd_;
  uint64_t size_, read_ = 0;
  std::string path_;
  const WorkGuard* const guard_;
};

class GzipReader final : public ByteReader {
 public:
  GzipReader(std::unique_ptr<ByteReader> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)), input_(kInputBytes) {
    ready_ = inflateInit2(&stream_, kGzipWindow) == Z_OK;
  }
  ~GzipReader() override { inflateEnd(&stream_); }

  StatusOr<size_t> Read(std::span<char> out) override {
    if (!ready_) return ResourceExhausted("cannot start decompression: out of memory");
    if (!broken_.ok()) return broken_;
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = static_cast<uInt>(std::min<size_t>(out.size(), 1u << 30));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out > 0) {
      if (stream_.avail_in == 0) {
        FW_ASSIGN_OR_RETURN(const size_t n, file_->Read(input_));
        if (n == 0) {
          if (!between_) broken_ = DataLoss("the gzip stream of {} is cut", path_);
          break;
        }
        stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
        stream_.avail_in = static_cast<uInt>(n);
      }
      between_ = false;
      const int code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_STREAM_END) {  // several members may follow each other
        between_ = true;
        if (inflateReset(&stream_) != Z_OK) return Internal("cannot reset decompression");
        ++members_;
      } else if (code != Z_OK && code != Z_BUF_ERROR) {
        // Zeros and other padding after the last member are no loss.
        if (members_ > 0 && stream_.total_out == 0) {
          at_end_ = true;
        } else {
          broken_ = DataLoss("the gzip stream of {} is broken: {}", path_,
                             stream_.msg != nullptr ? stream_.msg : "bad data");
        }
        break;
      }
    }
    const size_t got = wanted - stream_.avail_out;
    if (got > 0 || at_end_) return got;
    if (!broken_.ok()) return broken_;
    return size_t{0};
  }
  uint64_t stored_bytes_read() const override { return file_->stored_bytes_read(); }
  uint64_t stored_bytes() const override { return file_->stored_bytes(); }

 private:
  std::unique_ptr<ByteReader> file_;
  std::string path_;
  std::vector<char> input_;
  z_stream stream_{};
  bool ready_ = false, between_ = true, at_end_ = false;
  int members_ = 0;
  Status broken_;
};

StatusOr<std::unique_ptr<ByteReader>> OpenPlain(const std::string& path, const WorkGuard* guard) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return StatusOf(
        errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument,
        {"cannot open " + path, std::strerror(errno), ""});
  }
  struct stat info {};
  if (::fstat(fd, &info) != 0 || S_ISDIR(info.st_mode)) {
    ::close(fd);
    return InvalidArgument("cannot read {}: it is no file", path);
  }
  return std::make_unique<FileReader>(fd, static_cast<uint64_t>(info.st_size), path, guard);
}

}  // namespace

StatusOr<std::unique_ptr<ByteReader>> ByteReader::Open(const std::string& path,
                                                       const WorkGuard* guard) {
  char magic[2] = {0, 0};
  size_t got = 0;
  {
    FW_ASSIGN_OR_RETURN(const std::unique_ptr<ByteReader> file, OpenPlain(path, guard));
    FW_ASSIGN_OR_RETURN(got, file->Read(magic));
  }
  // Opened again from its start: two bytes of a pipe would be lost, but a trace is a file.
  FW_ASSIGN_OR_RETURN(std::unique_ptr<ByteReader> file, OpenPlain(path, guard));
  if (got == 2 && magic[0] == '\x1f' && magic[1] == '\x8b')
    return std::make_unique<GzipReader>(std::move(file), path);
  return file;
}

StatusOr<std::string> ReadPrefix(const std::string& path, size_t max_bytes,
                                 const WorkGuard* guard) {
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<ByteReader> reader, ByteReader::Open(path, guard));
  std::string out(max_bytes, '\0');
  const StatusOr<size_t> got = reader->Read(std::span(out.data(), out.size()));
  if (!got.ok())
    return got.status().code() == absl::StatusCode::kDataLoss ? StatusOr<std::string>(std::string())
                                                              : got.status();
  out.resize(*got);
  return out;
}

}  // namespace flopwatch::trace
