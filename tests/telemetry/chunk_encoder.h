// Chunks of Prometheus written bit by bit by the tests' own encoder, as tsdb/chunkenc/xor.go and
// xor2.go describe them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/chunk_decoder.h"

namespace flopwatch::telemetry {

struct BitWriter {
  std::string bits;  // '0' and '1', the first one first

  void Add(std::string_view written) {
    for (const char c : written) {
      if (c == '0' || c == '1') bits += c;
    }
  }
  void Number(uint64_t v, int count) {
    for (int i = count - 1; i >= 0; --i) bits += v >> i & 1 ? '1' : '0';
  }
  void Uvarint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) Number(0x80 | (v & 0x7f), 8);
    Number(v, 8);
  }
  void Varint(int64_t v) {
    Uvarint(v < 0 ? (~static_cast<uint64_t>(v) << 1) | 1 : static_cast<uint64_t>(v) << 1);
  }
  // Filled up with zeros to whole bytes.
  std::string Bytes() const {
    std::string bytes((bits.size() + 7) / 8, '\0');
    for (size_t i = 0; i < bits.size(); ++i) {
      if (bits[i] == '1') bytes[i / 8] = static_cast<char>(bytes[i / 8] | 0x80 >> i % 8);
    }
    return bytes;
  }
};

inline std::string Unhex(std::string_view hex) {
  BitWriter writer;
  for (const char c : hex) {
    if (c != ' ') writer.Number(static_cast<uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10), 4);
  }
  return writer.Bytes();
}

inline constexpr uint64_t kTestStaleBits = 0x7ff0000000000002;
inline double StaleMarker() { return std::bit_cast<double>(kTestStaleBits); }

struct TestSample {
  int64_t millis = 0;
  double value = 0;
  int64_t start = 0;  // XOR2 alone
};

// The window that value bits are written in: the last one wherever it fits, else the smallest. With
// whims, which a writer may have, now and then a new one all the same, or one wider than needed.
struct TestWindow {
  uint32_t whims = 0;
  int leading = -1, trailing = 0;

  int Whim(int below) {
    if (whims == 0) return 0;
    whims = whims * 1'664'525 + 1'013'904'223;
    return static_cast<int>(whims >> 16) % below;
  }
  // Whether these bits of difference go into the last window.
  bool Fits(uint64_t difference) {
    return leading >= 0 && std::countl_zero(difference) >= leading &&
           std::countr_zero(difference) >= trailing && Whim(4) != 1;
  }
  void Write(uint64_t difference, bool last, BitWriter* out) {
    if (!last) {
      leading = std::min(std::countl_zero(difference), 31);
      trailing = std::countr_zero(difference);
      leading -= Whim(leading + 1);
      trailing -= Whim(trailing + 1);
      out->Number(static_cast<uint64_t>(leading), 5);
      out->Number(static_cast<uint64_t>(64 - leading - trailing), 6);  // 64 is written as 0
    }
    out->Number(difference >> trailing, 64 - leading - trailing);
  }
};

inline bool InRange(int64_t v, int64_t low, int64_t high) { return v >= low && v <= high; }

inline std::string EncodeXor(const std::vector<TestSample>& samples, uint32_t whims = 0) {
  BitWriter out;
  out.Number(samples.size(), 16);
  TestWindow window{whims};
  uint64_t last = 0;
  int64_t t = 0, delta = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const uint64_t value = std::bit_cast<uint64_t>(samples[i].value);
    if (i == 0) {
      out.Varint(samples[i].millis);
      out.Number(value, 64);
    } else {
      const int64_t new_delta = samples[i].millis - t;
      const int64_t dod = new_delta - delta;
      if (i == 1) {
        out.Uvarint(static_cast<uint64_t>(new_delta));
      } else if (dod == 0) {
        out.Add("0");
      } else if (InRange(dod, -8191, 8192)) {
        out.Add("10");
        out.Number(static_cast<uint64_t>(dod), 14);
      } else if (InRange(dod, -65535, 65536)) {
        out.Add("110");
        out.Number(static_cast<uint64_t>(dod), 17);
      } else if (InRange(dod, -524287, 524288)) {
        out.Add("1110");
        out.Number(static_cast<uint64_t>(dod), 20);
      } else {
        out.Add("1111");
        out.Number(static_cast<uint64_t>(dod), 64);
      }
      delta = new_delta;
      const uint64_t difference = value ^ last;
      if (difference == 0) {
        out.Add("0");
      } else {
        const bool fits = window.Fits(difference);
        out.Add(fits ? "10" : "11");
        window.Write(difference, fits, &out);
      }
    }
    t = samples[i].millis;
    last = value;
  }
  return out.Bytes();
}

// A number as start times are written.
inline void WriteVarbit(int64_t v, BitWriter* out) {
  struct Class {
    std::string_view prefix;
    int bits;
  };
  if (v == 0) return out->Add("0");
  for (const Class& c : {Class{"10", 3}, Class{"110", 6}, Class{"1110", 9}, Class{"11110", 12},
                         Class{"111110", 18}, Class{"1111110", 25}, Class{"11111110", 56}}) {
    const int64_t high = int64_t{1} << (c.bits - 1);
    if (!InRange(v, 1 - high, high)) continue;
    out->Add(c.prefix);
    return out->Number(static_cast<uint64_t>(v), c.bits);
  }
  out->Add("11111111");
  out->Number(static_cast<uint64_t>(v), 64);
}

// `starts_from`: samples from this one on carry their start time (1 to 127; 0: none does);
// `first_start`: the first one does.
inline std::string EncodeXor2(const std::vector<TestSample>& samples, bool first_start = false,
                              unsigned starts_from = 0, uint32_t whims = 0) {
  BitWriter out;
  out.Number(samples.size(), 16);
  out.Number((first_start ? 0x80u : 0u) | starts_from, 8);
  TestWindow window{whims};
  uint64_t last = 0;
  int64_t t = 0, delta = 0, start_difference = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const uint64_t value = std::bit_cast<uint64_t>(samples[i].value);
    const bool stale = value == kTestStaleBits;
    const uint64_t difference = value ^ last;
    if (i == 0) {
      out.Varint(samples[i].millis);
      out.Number(value, 64);
      if (first_start) out.Varint(samples[i].millis - samples[i].start);
    } else {
      const int64_t new_delta = samples[i].millis - t;
      const int64_t dod = new_delta - delta;
      delta = new_delta;
      const bool joint = i >= 2 && dod == 0;
      if (i == 1) {
        out.Uvarint(static_cast<uint64_t>(new_delta));
      } else if (dod == 0) {
        out.Add(stale ? "11111" : difference == 0 ? "0" : "10");
      } else if (InRange(dod, -4096, 4095)) {
        out.Add("110");
        out.Number(static_cast<uint64_t>(dod), 13);
      } else if (InRange(dod, -524288, 524287)) {
        out.Add("1110");
        out.Number(static_cast<uint64_t>(dod), 20);
      } else {
        out.Add("11110");
        out.Number(static_cast<uint64_t>(dod), 64);
      }
      if (stale) {
        if (!joint) out.Add("111");
      } else if (difference == 0) {
        if (!joint) out.Add("0");
      } else {
        const bool fits = window.Fits(difference);
        out.Add(joint ? (fits ? "0" : "1") : (fits ? "10" : "110"));
        window.Write(difference, fits, &out);
      }
      if (starts_from != 0 && i >= starts_from) {
        const int64_t from_last = t - samples[i].start;
        WriteVarbit(i == starts_from ? from_last : from_last - start_difference, &out);
        start_difference = from_last;
      }
    }
    t = samples[i].millis;
    if (!stale) last = value;
  }
  return out.Bytes();
}

}  // namespace flopwatch::telemetry
