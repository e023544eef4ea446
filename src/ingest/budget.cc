#include "ingest/budget.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/hash/hash.h"

namespace flopwatch::ingest {
namespace {

uint64_t KeyOf(std::string_view sender) {
  return absl::HashOf(absl::string_view(sender.data(), sender.size()));
}

}  // namespace

std::string SenderOf(std::string_view remote) {
  if (!remote.starts_with('[')) return std::string(remote.substr(0, remote.find(':')));
  const std::string host(remote.substr(1, remote.find(']') - 1));
  in6_addr address;
  if (inet_pton(AF_INET6, host.c_str(), &address) != 1) return host;
  if (IN6_IS_ADDR_V4MAPPED(&address)) return host.substr(host.rfind(':') + 1);
  std::fill(std::begin(address.s6_addr) + 8, std::end(address.s6_addr), uint8_t{0});
  char text[INET6_ADDRSTRLEN];
  return inet_ntop(AF_INET6, &address, text, sizeof text);
}

Budgets::Budgets(const Allowances& allowances, size_t max_bytes, std::function<Micros()> monotonic)
    : allowances_(allowances), max_bytes_(max_bytes), monotonic_(std::move(monotonic)) {}

bool Budgets::Hold(std::string_view sender, int64_t more_bytes) {
  MutexLock lock(mutex_);
  const auto it = bytes_.try_emplace(KeyOf(sender), 0).first;
  it->second += more_bytes;
  const bool within = it->second <= static_cast<int64_t>(max_bytes_);
  if (it->second == 0) bytes_.erase(it);
  return within;
}

void Budgets::GiveBack(Spent* spent, Micros now) const {
  const double hours = static_cast<double>(now - spent->at) / static_cast<double>(kMicrosPerHour);
  for (size_t k = 0; k < kNewThings; ++k)
    spent->units[k] = std::max(0.0, spent->units[k] - allowances_[k].per_hour * hours);
  spent->at = now;
}

Budgets::Spent& Budgets::Of(std::string_view sender, Micros now) {
  const uint64_t key = KeyOf(sender);
  if (const auto it = spent_.find(key); it != spent_.end()) return it->second;
  if (spent_.size() >= kMaxSenders && now >= next_sweep_) {
    next_sweep_ = now + kMicrosPerMinute;
    absl::erase_if(spent_, [&](auto& s) {
      GiveBack(&s.second, now);
      return std::all_of(s.second.units.begin(), s.second.units.end(),
                         [](double units) { return units == 0; });
    });
  }
  return spent_[spent_.size() >= kMaxSenders ? 0 : key];
}

bool Budgets::Take(std::string_view sender, NewThing thing, double units, size_t room) {
  const auto k = static_cast<size_t>(thing);
  if (std::isinf(allowances_[k].at_once)) return true;
  const Micros now = monotonic_();
  MutexLock lock(mutex_);
  Spent& spent = Of(sender, now);
  GiveBack(&spent, now);
  // One is always within it: small tables have no quarter.
  const double share = std::max(1.0, (static_cast<double>(room) + spent.units[k]) / 4);
  if (spent.units[k] + units > std::min(allowances_[k].at_once, share)) return false;
  spent.units[k] += units;
  return true;
}

}  // namespace flopwatch::ingest
