#include "jobs/slurm/inventory.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/text.h"
#include "fmt/format.h"
#include "jobs/hostlist.h"

namespace flopwatch::slurm {
namespace {

constexpr std::string_view kColumns[] = {"node", "gpus", "cluster", "partitions", "from", "to"};
enum Column : size_t { kNode, kGpus, kCluster, kPartitions, kFrom, kTo, kColumnCount };

std::string_view Trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

class InventoryReader {
 public:
  explicit InventoryReader(std::string_view file_name) : file_name_(file_name) {}

  StatusOr<std::vector<jobs::NodeRecord>> Read(std::string_view text) {
    text = WithoutByteOrderMark(text);
    std::vector<std::string> cells;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = text.substr(at, end - at);
      at = end + 1;
      ++line_;
      if (Trimmed(line).empty() || Trimmed(line).front() == '#') continue;
      if (!SplitCsv(line, &cells)) return Fail("a quote is not closed on this line");
      if (columns_.empty()) {
        FW_RETURN_IF_ERROR(ReadHeader(cells));
      } else {
        FW_RETURN_IF_ERROR(ReadHosts(cells));
      }
    }
    if (columns_.empty())
      return InvalidArgument("{}: empty; its first line names the columns: {}", file_name_,
                             Columns());
    return std::move(out_);
  }

 private:
  static std::string Columns() { return "node,gpus[,cluster,partitions,from,to]"; }
  Status Fail(std::string_view why) const {
    return InvalidArgument("{}:{}: {}", file_name_, line_, why);
  }

  Status ReadHeader(const std::vector<std::string>& cells) {
    for (const std::string& cell : cells) {
      const auto known = std::ranges::find(kColumns, Trimmed(cell));
      if (known == std::end(kColumns))
        return Fail(fmt::format("unknown column '{}'; the header names {}", Printable(cell, 60),
                                Columns()));
      const auto column = static_cast<Column>(known - std::begin(kColumns));
      if (std::ranges::find(columns_, column) != columns_.end())
        return Fail(fmt::format("column '{}' appears twice", *known));
      columns_.push_back(column);
    }
    for (const Column needed : {kNode, kGpus}) {
      if (std::ranges::find(columns_, needed) == columns_.end())
        return Fail(fmt::format("the header has no column '{}'", kColumns[needed]));
    }
    return absl::OkStatus();
  }

  Status ReadHosts(const std::vector<std::string>& cells) {
    if (cells.size() != columns_.size())
      return Fail(fmt::format("{} fields where the header has {}", cells.size(), columns_.size()));
    jobs::NodeRecord host;
    host.service = jobs::Service::kInService;
    std::string_view nodes;
    for (size_t k = 0; k < cells.size(); ++k) {
      const std::string_view value = Trimmed(cells[k]);
      if (columns_[k] == kNode) nodes = value;
      FW_RETURN_IF_ERROR(Set(columns_[k], value, &host));
    }
    if (host.to <= host.from) return Fail("to: not after from");
    const auto names = jobs::ExpandHostlist(nodes);
    if (!names.ok()) return Fail(fmt::format("node: {}", MessageOf(names.status())));
    if (names->empty()) return Fail("node: names no host");
    if (out_.size() + names->size() > kMaxInventoryHosts)
      return Fail(fmt::format("more than {} hosts", kMaxInventoryHosts));
    for (const std::string& name : *names) out_.emplace_back(host).node = name;
    return absl::OkStatus();
  }

  Status Set(Column column, std::string_view value, jobs::NodeRecord* host) const {
    if (column == kGpus) {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), host->gpus);
      if (error != std::errc() || end != value.data() + value.size() || host->gpus < 0 ||
          host->gpus > kMaxInventoryGpus) {
        return Fail(fmt::format("gpus: '{}': expected a whole number from 0 to {}",
                                Printable(value, 40), kMaxInventoryGpus));
      }
    } else if (column == kCluster) {
      host->cluster = Printable(value, 200);
    } else if (column == kPartitions) {
      host->partitions = Printable(value, 4096);
    } else if ((column == kFrom || column == kTo) && !value.empty()) {
      // Relative times would mean another moment at each start.
      const auto at = ParseTime(value, 0);
      if (!at.ok() || *at <= 0)
        return Fail(fmt::format("{}: '{}': expected a date or a time", kColumns[column],
                                Printable(value, 40)));
      (column == kFrom ? host->from : host->to) = *at;
    }
    return absl::OkStatus();
  }

  const std::string_view file_name_;
  size_t line_ = 0;
  std::vector<Column> columns_;
  std::vector<jobs::NodeRecord> out_;
};

}  // namespace

StatusOr<std::vector<jobs::NodeRecord>> ParseInventory(std::string_view text,
                                                       std::string_view file_name) {
  return InventoryReader(file_name).Read(text);
}

}  // namespace flopwatch::slurm
