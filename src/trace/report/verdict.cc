#include "trace/report/verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

namespace flopwatch::trace {
namespace {

std::string Percent(double share) { return HumanCell(share, ColumnFormat::kPercent); }

std::string TimeSentence(const TraceReport& r) {
  const TimeSplit& t = r.total;
  if (t.window <= 0) {
    int64_t events = 0;
    for (const ReportRank& rank : r.ranks) events += rank.events;
    return events == 0 ? "There are no events in this trace."
                       : "There is no GPU work in this trace: CPU activity alone was recorded, so "
                         "where GPU time went is not computable.";
  }
  // Parts under a thousandth are noise in a sentence.
  struct Part {
    Nanos time;
    std::string_view text;
  };
  std::vector<Part> parts = {{t.compute, "compute"},
                             {t.exposed_communication, "communication that no compute hid"},
                             {t.exposed_memory, "copies that nothing hid"},
                             {t.idle, "idle"}};
  std::ranges::stable_sort(parts, [](const Part& a, const Part& b) { return a.time > b.time; });
  std::erase_if(parts, [&](const Part& p) {
    return static_cast<double>(p.time) < 0.001 * static_cast<double>(t.window);
  });
  const int64_t with_gpu =
      std::ranges::count_if(r.ranks, [](const ReportRank& k) { return k.time.has_value(); });
  std::string out = fmt::format("Of {} of GPU time{}, ", HumanNanos(t.window),
                                with_gpu > 1 ? fmt::format(" on {} ranks", with_gpu) : "");
  for (size_t i = 0; i < parts.size(); ++i) {
    out += fmt::format("{}{} was {}",
                       i == 0                  ? ""
                       : i + 1 == parts.size() ? " and "
                                               : ", ",
                       Percent(*t.Share(parts[i].time)), parts[i].text);
    if (i > 0) out.replace(out.rfind(" was "), 5, " ");
  }
  if (t.fused > t.window / 1000)
    out += fmt::format("; for {} kernels ran that compute and communicate in one",
                       Percent(*t.Share(t.fused)));
  return out + ".";
}

// Above this share of GPU time a class that is a guess decides what the verdict says.
constexpr double kGuessedShare = 0.10;

std::string GuessSentence(const TraceReport& r) {
  if (r.guessed.share <= kGuessedShare) return "";
  return fmt::format(
      "{} of the time of GPU work is in kernels whose kind is a guess by words in their names: "
      "{}; --communication TEXT names those that communicate.",
      Percent(r.guessed.share), fmt::join(r.guessed.names, ", "));
}

const Finding* FindingOf(const TraceReport& r, std::string_view id) {
  for (const Finding& f : r.findings.findings)
    if (f.id == id) return &f;
  return nullptr;
}

std::string Sentence(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  if (!text.empty() && text.back() != '.' && text.back() != '!' && text.back() != '?') text += '.';
  return text;
}

// Where products count as nothing, MFU is too low, and the reader must know.
std::string UncountedProductsText(const TraceReport& r) {
  constexpr double kWorthSaying = 0.01;
  if (r.uncounted_products.share < kWorthSaying) return "";
  return fmt::format(" {} of compute time is in products that could not be counted: {}.",
                     Percent(r.uncounted_products.share),
                     fmt::join(r.uncounted_products.names, ", "));
}

// The MFU of the lowest rank to that of the highest, where FLOPs are counted at all.
std::string MfuSentence(const TraceReport& r) {
  std::optional<double> low, high, coverage;
  for (const ReportRank& k : r.ranks) {
    if (!k.mfu_span || !k.flops_coverage) continue;
    low = std::min(low.value_or(*k.mfu_span), *k.mfu_span);
    high = std::max(high.value_or(*k.mfu_span), *k.mfu_span);
    coverage = std::min(coverage.value_or(*k.flops_coverage), *k.flops_coverage);
  }
  if (!low || *high <= 0) {
    const std::string products = UncountedProductsText(r);
    return products.empty() ? "" : "MFU is not computable." + products;
  }
  const std::string value = *high - *low < 0.0005
                                ? Percent(*low)
                                : fmt::format("{} to {}", Percent(*low), Percent(*high));
  return fmt::format("MFU over that time was {}, with the FLOPs of {}{} of compute time counted.",
                     value, r.ranks.size() > 1 ? "at least " : "", Percent(*coverage)) +
         UncountedProductsText(r);
}

// No finding does not mean no loss: what none of them explains of the idle time is said.
std::string UnexplainedSentence(const TraceReport& r) {
  constexpr double kWorthSaying = 0.10;
  double idle = 0, rest = 0, steps = 0;
  for (const RankLedger& rank : r.findings.ledger) {
    idle += static_cast<double>(rank.idle);
    rest += std::max(0.0, static_cast<double>(rank.idle) - rank.claimed);
    steps += static_cast<double>(rank.steps);
  }
  if (steps <= 0 || rest < kWorthSaying * steps) return "";
  return fmt::format("The GPU was idle for {} of the steps, and no finding explains {} of that.",
                     Percent(idle / steps), Percent(rest / idle));
}

std::string FindingSentence(const Finding& f) {
  std::string out = f.title;
  while (out.ends_with('.')) out.pop_back();
  if (f.gain > 0)
    out += SharedGain(f) ? fmt::format(
                               " ({} of the step, up to {} with what other findings explain "
                               "too)",
                               Percent(f.claimed), Percent(f.gain))
                         : fmt::format(" (up to {} of the step)", Percent(f.gain));
  return out + ". " + Sentence(f.advice);
}

}  // namespace

std::vector<std::string> VerdictOf(const TraceReport& r) {
  std::vector<std::string> out;
  out.push_back(TimeSentence(r));
  if (std::string mfu = MfuSentence(r); !mfu.empty()) out.push_back(std::move(mfu));
  if (std::string guess = GuessSentence(r); !guess.empty()) out.push_back(std::move(guess));
  const Finding* straggler = FindingOf(r, "straggler");
  if (r.straggler && !r.straggler_sentence.empty()) {
    out.push_back(Sentence(r.straggler_sentence) +
                  (straggler != nullptr ? " " + Sentence(straggler->advice) : ""));
  } else if (straggler != nullptr) {
    out.push_back(FindingSentence(*straggler));
  }
  const auto worth = [&](const Finding& f) {
    return &f != straggler && f.severity != Severity::kInfo;
  };
  const auto biggest = std::ranges::find_if(r.findings.findings, worth);
  const bool first_is_straggler = straggler != nullptr && !r.findings.findings.empty() &&
                                  &r.findings.findings.front() == straggler;
  if (biggest != r.findings.findings.end()) {
    out.push_back((first_is_straggler ? "Next: " : "Biggest finding: ") +
                  FindingSentence(*biggest));
  } else if (straggler == nullptr && !r.straggler && r.total.window > 0) {
    const size_t not_checked = r.findings.not_checked.size();
    std::string text = "Nothing worth acting on was found";
    if (not_checked > 0)
      text += fmt::format("; {} of the rules had no data to judge by", not_checked);
    out.push_back(text + ".");
    if (std::string rest = UnexplainedSentence(r); !rest.empty()) out.push_back(std::move(rest));
  }
  out.insert(out.end(), r.parts_missing.begin(), r.parts_missing.end());
  if (r.losses.partial()) out.push_back(LossSentence(r.losses));
  return out;
}

}  // namespace flopwatch::trace
