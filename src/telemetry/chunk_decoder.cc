#include "telemetry/chunk_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "telemetry/value.h"

namespace flopwatch::telemetry {
namespace {

// Bits of a chunk, the most significant first. Beyond the end it reads zeros, and Past() tells.
class BitReader {
 public:
  explicit BitReader(std::string_view bytes) : data_(bytes.data()), size_(bytes.size()) {}

  // The next 57 bits or more, at the top of the word.
  uint64_t Peek() const {
    const uint64_t byte = at_ >> 3;
    uint64_t word = 0;
    if (byte + 8 <= size_) [[likely]] {
      std::memcpy(&word, data_ + byte, 8);
    } else if (byte < size_) {
      std::memcpy(&word, data_ + byte, size_ - byte);
    }
    if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
    return word << (at_ & 7);
  }
  void Skip(unsigned bits) { at_ += bits; }
  // 1 to 57 bits.
  uint64_t Take(unsigned bits) {
    const uint64_t taken = Peek() >> (64 - bits);
    at_ += bits;
    return taken;
  }
  // 1 to 64 bits.
  uint64_t TakeLong(unsigned bits) {
    if (bits <= 57) [[likely]]
      return Take(bits);
    const uint64_t high = Take(32);
    return high << (bits - 32) | Take(bits - 32);
  }

  uint64_t bits() const { return size_ * 8; }
  bool Past() const { return at_ > size_ * 8; }
  // Nothing but padding is left: zeros, up to a whole byte. (Appenders before Prometheus 3 leave a
  // byte of zeros where the last bits end with one: bstream.writeByte there.)
  bool AtEnd() const { return size_ * 8 - at_ <= 8 && Peek() == 0; }

 private:
  const char* data_;
  uint64_t size_;
  uint64_t at_ = 0;  // in bits; a sample takes fewer than 300, and after each Past() is asked
};

// Base-128, as Go's binary.ReadUvarint.
bool TakeUvarint(BitReader* in, uint64_t* value) {
  *value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const uint64_t byte = in->Take(8);
    if (shift == 63 && byte > 1) return false;
    *value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

int64_t FromZigZag(uint64_t v) { return static_cast<int64_t>(v >> 1 ^ (~(v & 1) + 1)); }

// n bits as XOR and varbit have them: raw 2^(n-1) itself is positive.
int64_t SignedUpTo(uint64_t raw, unsigned bits) {
  return raw > uint64_t{1} << (bits - 1) ? static_cast<int64_t>(raw - (uint64_t{1} << bits))
                                         : static_cast<int64_t>(raw);
}

// n bits in two's complement.
int64_t TwosComplement(uint64_t raw, unsigned bits) {
  return static_cast<int64_t>(raw << (64 - bits)) >> (64 - bits);
}

enum class Fault { kNone, kTime, kWindow };

// What both encodings have in common: times by their second difference, values by the bits in which
// they differ from the last one.
class ChunkState {
 public:
  explicit ChunkState(std::string_view bits) : in_(bits) {}

  const BitReader& in() const { return in_; }
  int64_t time() const { return t_; }

 protected:
  Fault FirstTime() {
    uint64_t raw = 0;
    if (!TakeUvarint(&in_, &raw)) return Fault::kTime;
    t_ = FromZigZag(raw);
    return Fault::kNone;
  }
  // From the first to the second.
  Fault SecondTime() {
    uint64_t raw = 0;
    if (!TakeUvarint(&in_, &raw)) return Fault::kTime;
    delta_ = static_cast<int64_t>(raw);
    return delta_ < 0 ? Fault::kTime : Step(0);
  }
  Fault Step(int64_t dod) {
    return __builtin_add_overflow(delta_, dod, &delta_) || __builtin_add_overflow(t_, delta_, &t_)
               ? Fault::kTime
               : Fault::kNone;
  }

  // Value bits in the last window, and after a window of their own.
  Fault SameWindow() {
    bits_ ^= in_.TakeLong(64 - leading_ - trailing_) << trailing_;
    return Fault::kNone;
  }
  Fault NewWindow() {
    const auto window = static_cast<unsigned>(in_.Take(11));
    const unsigned length = (window & 63) == 0 ? 64 : window & 63;
    if ((window >> 6) + length > 64) return Fault::kWindow;
    leading_ = window >> 6;
    trailing_ = 64 - leading_ - length;
    return SameWindow();
  }

  BitReader in_;
  int64_t t_ = 0, delta_ = 0;
  uint64_t bits_ = 0;  // what the next value's bits are told from
  unsigned leading_ = 0, trailing_ = 0;
};

class XorState : public ChunkState {
 public:
  using ChunkState::ChunkState;

  Fault Sample(unsigned i) {
    if (i >= 2) [[likely]] {
      const Fault fault = Time();
      return fault == Fault::kNone ? Value() : fault;
    }
    const Fault fault = i == 0 ? FirstTime() : SecondTime();
    if (i == 1 && fault == Fault::kNone) return Value();
    if (i == 0) bits_ = in_.TakeLong(64);
    return fault;
  }
  uint64_t value() const { return bits_; }

 private:
  Fault Time() {
    const uint64_t word = in_.Peek();
    switch (std::countl_one(word)) {
      case 0:
        in_.Skip(1);
        return Step(0);
      case 1:
        in_.Skip(2 + 14);
        return Step(SignedUpTo(word << 2 >> 50, 14));
      case 2:
        in_.Skip(3 + 17);
        return Step(SignedUpTo(word << 3 >> 47, 17));
      case 3:
        in_.Skip(4 + 20);
        return Step(SignedUpTo(word << 4 >> 44, 20));
      default:
        in_.Skip(4);
        return Step(static_cast<int64_t>(in_.TakeLong(64)));
    }
  }
  Fault Value() {
    switch (std::countl_one(in_.Peek())) {
      case 0:
        in_.Skip(1);
        return Fault::kNone;
      case 1:
        in_.Skip(2);
        return SameWindow();
      default:
        in_.Skip(2);
        return NewWindow();
    }
  }
};

class Xor2State : public ChunkState {
 public:
  // The byte of the header that says which samples carry a start time.
  Xor2State(std::string_view bits, uint8_t starts)
      : ChunkState(bits), first_start_(starts & 0x80), starts_from_(starts & 0x7f) {}

  Fault Sample(unsigned i) {
    stale_ = false;
    Fault fault;
    if (i >= 2) [[likely]] {
      fault = Joint();
    } else if (i == 0) {
      fault = First();
    } else {
      fault = SecondTime();
      if (fault == Fault::kNone) fault = Value();
    }
    if (starts_from_ != 0 && i >= starts_from_) SkipStart();
    return fault;
  }
  uint64_t value() const { return stale_ ? kStaleNaN : bits_; }

 private:
  Fault First() {
    const Fault fault = FirstTime();
    const uint64_t value = in_.TakeLong(64);
    stale_ = value == kStaleNaN;
    if (!stale_) bits_ = value;
    uint64_t start = 0;
    if (first_start_ && !TakeUvarint(&in_, &start)) return Fault::kTime;
    return fault;
  }
  // Time and value under one prefix.
  Fault Joint() {
    const uint64_t word = in_.Peek();
    Fault fault;
    switch (std::countl_one(word)) {
      case 0:
        in_.Skip(1);
        return Step(0);
      case 1:
        in_.Skip(3);  // with the bit that tells the window
        fault = Step(0);
        if (fault != Fault::kNone) return fault;
        return word << 2 >> 63 ? NewWindow() : SameWindow();
      case 2:
        in_.Skip(3 + 13);
        fault = Step(TwosComplement(word << 3 >> 51, 13));
        break;
      case 3:
        in_.Skip(4 + 20);
        fault = Step(TwosComplement(word << 4 >> 44, 20));
        break;
      case 4:
        in_.Skip(5);
        fault = Step(static_cast<int64_t>(in_.TakeLong(64)));
        break;
      default:
        in_.Skip(5);
        stale_ = true;
        return Step(0);
    }
    return fault == Fault::kNone ? Value() : fault;
  }
  Fault Value() {
    switch (std::countl_one(in_.Peek())) {
      case 0:
        in_.Skip(1);
        return Fault::kNone;
      case 1:
        in_.Skip(2);
        return SameWindow();
      case 2:
        in_.Skip(3);
        return NewWindow();
      default:
        in_.Skip(3);
        stale_ = true;
        return Fault::kNone;
    }
  }
  // A start time: a number with a prefix of up to eight ones.
  void SkipStart() {
    static constexpr uint8_t kBits[9] = {1,      2 + 3,  3 + 6,  4 + 9, 5 + 12,
                                         6 + 18, 7 + 25, 8 + 56, 8 + 64};
    in_.Skip(kBits[std::min(std::countl_one(in_.Peek()), 8)]);
  }

  const bool first_start_;
  const unsigned starts_from_;
  bool stale_ = false;
};

template <typename State>
Status ReadSamples(State state, unsigned count, std::vector<ChunkSample>* samples) {
  const size_t before = samples->size();
  // A sample takes a bit at least: more than there are bits end in Past(), whatever a count says.
  samples->resize(before + std::min<uint64_t>(count, state.in().bits()));
  ChunkSample* const out = samples->data() + before;
  for (unsigned i = 0; i < count; ++i) {
    const Fault fault = state.Sample(i);
    const bool cut = state.in().Past();
    if (cut || fault != Fault::kNone) [[unlikely]] {
      samples->resize(before + i);
      if (cut) return InvalidArgument("it ends inside sample {} of {}", i + 1, count);
      return fault == Fault::kTime
                 ? InvalidArgument("sample {} of {} has a time beyond 64 bits", i + 1, count)
                 : InvalidArgument("sample {} of {} has a window of more than 64 value bits", i + 1,
                                   count);
    }
    const uint64_t value = state.value();
    out[i] = {state.time(), std::bit_cast<double>(value), value == kStaleNaN};
  }
  if (!state.in().AtEnd())
    return InvalidArgument("it goes on after the last of its {} samples", count);
  return absl::OkStatus();
}

}  // namespace

std::string ChunkEncodingName(uint32_t encoding) {
  static constexpr std::string_view kNames[] = {"none",
                                                "XOR",
                                                "histogram",
                                                "float histogram",
                                                "XOR2",
                                                "histogram with start times",
                                                "float histogram with start times"};
  std::string_view name = "unknown";
  if (encoding < std::size(kNames)) {
    name = kNames[encoding];
  } else if (encoding == 255) {
    name = "Thanos' downsampled aggregates";
  }
  return fmt::format("{} ({})", encoding, name);
}

Status DecodeChunk(uint32_t encoding, std::string_view data, std::vector<ChunkSample>* samples) {
  if (encoding != kChunkXor && encoding != kChunkXor2) {
    return Status(
        absl::StatusCode::kUnimplemented,
        fmt::format("chunks of encoding {} are not decoded", ChunkEncodingName(encoding)));
  }
  const size_t header = encoding == kChunkXor ? 2 : 3;
  if (data.size() < header)
    return InvalidArgument("{} chunk: it is cut in its header",
                           encoding == kChunkXor ? "XOR" : "XOR2");
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(data[i]); };
  const unsigned count = byte(0) << 8 | byte(1);
  const std::string_view bits = data.substr(header);
  return encoding == kChunkXor
             ? Annotate(ReadSamples(XorState(bits), count, samples), "XOR chunk")
             : Annotate(ReadSamples(Xor2State(bits, byte(2)), count, samples), "XOR2 chunk");
}

}  // namespace flopwatch::telemetry
