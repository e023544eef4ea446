// Reads what `simulate fleet --scheduler` wrote, the way a careful administrator's script would,
// and with nothing of the simulator: the second opinion of scheduler_test.cc.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace flopwatch::simulate::reader {

using Row = std::map<std::string, std::string>;

inline std::vector<std::string> Split(const std::string& text, char by) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    if (c == by)
      out.emplace_back();
    else
      out.back() += c;
  }
  return out;
}

// Rows by the names of the header line.
inline std::vector<Row> Table(const std::string& path, char delimiter) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  const std::vector<std::string> header = Split(line, delimiter);
  std::vector<Row> rows;
  while (std::getline(in, line)) {
    const std::vector<std::string> cells = Split(line, delimiter);
    Row row;
    for (size_t i = 0; i < header.size(); ++i) row[header[i]] = i < cells.size() ? cells[i] : "";
    rows.push_back(std::move(row));
  }
  return rows;
}

// "a=1,b=2" as numbers; what is no number (mem=2G) is left out.
inline std::map<std::string, int64_t> Counts(const std::string& tres) {
  std::map<std::string, int64_t> out;
  for (const std::string& item : Split(tres, ',')) {
    const size_t equals = item.rfind('=');
    if (equals == std::string::npos) continue;
    const std::string value = item.substr(equals + 1);
    if (value.find_first_not_of("0123456789") == std::string::npos)
      out[item.substr(0, equals)] = std::stoll(value);
  }
  return out;
}

// "[DD-]HH:MM:SS"
inline int64_t Seconds(const std::string& clock) {
  int64_t days = 0, sum = 0;
  std::string rest = clock;
  if (const size_t dash = rest.find('-'); dash != std::string::npos) {
    days = std::stoll(rest.substr(0, dash));
    rest = rest.substr(dash + 1);
  }
  for (const std::string& part : Split(rest, ':')) sum = sum * 60 + std::stoll(part);
  return days * 86400 + sum;
}

// "p[1-2,04]q,r" without brackets that multiply.
inline std::vector<std::string> Hosts(const std::string& list) {
  std::vector<std::string> out;
  for (size_t i = 0; i < list.size();) {
    size_t end = i, depth = 0;
    for (; end < list.size() && (depth > 0 || list[end] != ','); ++end)
      depth += list[end] == '[' ? 1 : list[end] == ']' ? -1 : 0;
    const std::string item = list.substr(i, end - i);
    i = end + 1;
    const size_t open = item.find('[');
    if (open == std::string::npos) {
      out.push_back(item);
      continue;
    }
    const std::string inside = item.substr(open + 1, item.size() - open - 2);
    for (const std::string& range : Split(inside, ',')) {
      const std::vector<std::string> ends = Split(range, '-');
      for (int64_t n = std::stoll(ends.front()); n <= std::stoll(ends.back()); ++n) {
        std::string digits = std::to_string(n);
        while (digits.size() < ends.front().size()) digits = "0" + digits;
        out.push_back(item.substr(0, open) + digits);
      }
    }
  }
  return out;
}

// A row of sacct.
struct Allocation {
  std::string id, cluster, account, partition, state, reservation;
  int64_t submit = 0, start = 0, end = 0;  // seconds since 1970; 0 = never started
  int64_t elapsed = 0, suspended = 0, gpus = 0, shards = 0;
  bool mig = false, running = false;
  std::vector<std::string> nodes;
};

// What is unknown ends at `now`.
inline std::vector<Allocation> Sacct(const std::string& directory, int64_t now) {
  std::vector<Allocation> out;
  for (const Row& row : Table(directory + "/sacct.txt", '|')) {
    Allocation a;
    a.id = row.at("JobIDRaw");
    a.cluster = row.at("Cluster");
    a.account = row.at("Account");
    a.partition = row.at("Partition");
    a.state = Split(row.at("State"), ' ').front();
    a.reservation = row.at("Reservation");
    a.submit = std::stoll(row.at("Submit"));
    const std::string start = row.at("Start"), end = row.at("End");
    if (start != "Unknown" && start != "None") {
      a.start = std::stoll(start);
      a.running = end == "Unknown";
      a.end = a.running ? now : std::stoll(end);
      a.nodes = Hosts(row.at("NodeList"));
    }
    a.elapsed = std::stoll(row.at("ElapsedRaw"));
    a.suspended = Seconds(row.at("Suspended"));
    for (const auto& [name, count] : Counts(row.at("AllocTRES"))) {
      if (name == "gres/gpu") a.gpus = count;
      if (name == "gres/shard") a.shards = count;
      a.mig = a.mig || name.find('_') != std::string::npos;
    }
    out.push_back(std::move(a));
  }
  return out;
}

}  // namespace flopwatch::simulate::reader
