// Writes a block of Prometheus' data folder, as its documents say, for tests: series with XOR
// chunks of which each sample is written out in full. Nothing of the code that reads them is used
// but the checksum, which has a test of its own.
#pragma once

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crc32c.h"

namespace flopwatch::history::testing {

inline void PutBe(uint64_t value, int bytes, std::string* out) {
  for (int k = bytes - 1; k >= 0; --k) *out += static_cast<char>(value >> (8 * k));
}
inline void PutUvarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) *out += static_cast<char>(value | 0x80);
  *out += static_cast<char>(value);
}
inline void PutVarint(int64_t value, std::string* out) {
  PutUvarint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63), out);
}
inline std::string Text(std::string_view text) {
  std::string out;
  PutUvarint(text.size(), &out);
  return out += text;
}
// Its length before it, its checksum behind it.
inline std::string Section(std::string_view body) {
  std::string out;
  PutBe(body.size(), 4, &out);
  out += body;
  PutBe(Crc32c(body), 4, &out);
  return out;
}

using WrittenSamples = std::vector<std::pair<int64_t, double>>;  // milliseconds, value

// Encoding 1: the first sample whole, the step to the second, from the third on "1111" and 64 bits
// of the second difference; of values "11", no leading zeros, 64 bits of difference.
inline std::string XorChunk(const WrittenSamples& samples) {
  std::string bits;
  const auto put = [&](uint64_t value, int n) {
    for (int k = n - 1; k >= 0; --k) bits += static_cast<char>('0' + (value >> k & 1));
  };
  const auto put_bytes = [&](const std::string& bytes) {
    for (const char c : bytes) put(static_cast<uint8_t>(c), 8);
  };
  int64_t delta = 0;
  for (size_t k = 0; k < samples.size(); ++k) {
    const auto value = std::bit_cast<uint64_t>(samples[k].second);
    std::string time;
    if (k == 0) {
      PutVarint(samples[0].first, &time);
      put_bytes(time);
      put(value, 64);
      continue;
    }
    const int64_t step = samples[k].first - samples[k - 1].first;
    if (k == 1) {
      PutUvarint(static_cast<uint64_t>(step), &time);
      put_bytes(time);
    } else {
      put(0xf, 4);
      put(static_cast<uint64_t>(step - delta), 64);
    }
    delta = step;
    put(3, 2);
    put(0, 5);
    put(0, 6);  // 64
    put(value ^ std::bit_cast<uint64_t>(samples[k - 1].second), 64);
  }
  std::string out;
  PutBe(samples.size(), 2, &out);
  for (size_t at = 0; at < bits.size(); at += 8) {
    int byte = 0;
    for (size_t k = at; k < at + 8; ++k) byte = byte << 1 | (k < bits.size() && bits[k] == '1');
    out += static_cast<char>(byte);
  }
  return out;
}

struct WrittenChunk {
  WrittenSamples samples;
  int encoding = 1;
};
struct WrittenSeries {
  std::vector<std::pair<std::string, std::string>> labels;  // sorted, with __name__
  std::vector<WrittenChunk> chunks;
};
struct WrittenBlock {
  std::string index, chunks, tombstones, meta;
};

inline std::string Tombstones(
    const std::vector<std::pair<uint32_t, std::pair<int64_t, int64_t>>>& spans) {
  std::string body, out;
  for (const auto& [series, span] : spans) {
    PutUvarint(series, &body);
    PutVarint(span.first, &body);
    PutVarint(span.second, &body);
  }
  PutBe(0x0130ba30, 4, &out);
  out += '\1';
  out += body;
  PutBe(Crc32c(body), 4, &out);
  return out;
}

// The series' numbers come back in `numbers`.
inline std::string IndexOf(const std::vector<WrittenSeries>& all,
                           const std::vector<std::vector<uint64_t>>& refs, int version,
                           std::vector<uint32_t>* numbers) {
  std::map<std::string, uint32_t> symbols = {{"", 0}};
  for (const WrittenSeries& series : all)
    for (const auto& [name, value] : series.labels) symbols[name] = symbols[value] = 0;
  std::string body;
  PutBe(symbols.size(), 4, &body);
  uint32_t next = 0;
  for (auto& [text, number] : symbols) {
    number = next++;
    body += Text(text);
  }
  std::string out;
  PutBe(0xbaaad700, 4, &out);
  out += static_cast<char>(version);
  const uint64_t symbols_at = out.size();
  out += Section(body);
  out.resize((out.size() + 15) / 16 * 16);
  const uint64_t series_at = out.size();
  std::map<std::pair<std::string, std::string>, std::vector<uint32_t>> postings;
  for (size_t s = 0; s < all.size(); ++s) {
    out.resize((out.size() + 15) / 16 * 16);
    numbers->push_back(static_cast<uint32_t>(out.size() / 16));
    postings[{"", ""}].push_back(numbers->back());
    std::string entry;
    PutUvarint(all[s].labels.size(), &entry);
    for (const auto& label : all[s].labels) {
      PutUvarint(symbols[label.first], &entry);
      PutUvarint(symbols[label.second], &entry);
      postings[label].push_back(numbers->back());
    }
    PutUvarint(all[s].chunks.size(), &entry);
    int64_t before = 0;
    for (size_t c = 0; c < all[s].chunks.size(); ++c) {
      const WrittenSamples& samples = all[s].chunks[c].samples;
      const int64_t min = samples.front().first, max = samples.back().first;
      if (c == 0) {
        PutVarint(min, &entry);
      } else {
        PutUvarint(static_cast<uint64_t>(min - before), &entry);
      }
      PutUvarint(static_cast<uint64_t>(max - min), &entry);
      if (c == 0) {
        PutUvarint(refs[s][0], &entry);
      } else {
        PutVarint(static_cast<int64_t>(refs[s][c] - refs[s][c - 1]), &entry);
      }
      before = max;
    }
    out += Text(entry);
    PutBe(Crc32c(entry), 4, &out);
  }
  const uint64_t postings_at = out.size();
  std::string table;
  PutBe(postings.size(), 4, &table);
  for (const auto& [label, series] : postings) {
    table += '\2';
    table += Text(label.first) + Text(label.second);
    PutUvarint(out.size(), &table);
    std::string list;
    PutBe(series.size(), 4, &list);
    for (const uint32_t number : series) PutBe(number, 4, &list);
    out += Section(list);
  }
  const uint64_t table_at = out.size();
  out += Section(table);
  std::string contents;
  for (const uint64_t at : {symbols_at, series_at, postings_at, table_at, postings_at, table_at})
    PutBe(at, 8, &contents);
  out += contents;
  PutBe(Crc32c(contents), 4, &out);
  return out;
}

inline WrittenBlock WriteBlock(const std::vector<WrittenSeries>& all, std::string_view meta,
                               int version = 2, std::vector<uint32_t>* numbers = nullptr) {
  WrittenBlock block;
  PutBe(0x85bd40dd, 4, &block.chunks);
  PutBe(1u << 24, 4, &block.chunks);
  std::vector<std::vector<uint64_t>> refs;
  for (const WrittenSeries& series : all) {
    std::vector<uint64_t>& own = refs.emplace_back();
    for (const WrittenChunk& chunk : series.chunks) {
      own.push_back(block.chunks.size());
      const std::string data = XorChunk(chunk.samples);
      std::string body(1, static_cast<char>(chunk.encoding));
      body += data;
      PutUvarint(data.size(), &block.chunks);
      block.chunks += body;
      PutBe(Crc32c(body), 4, &block.chunks);
    }
  }
  std::vector<uint32_t> own;
  block.index = IndexOf(all, refs, version, numbers == nullptr ? &own : numbers);
  block.tombstones = Tombstones({});
  block.meta = meta;
  return block;
}

}  // namespace flopwatch::history::testing
