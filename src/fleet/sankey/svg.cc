#include "fleet/sankey/svg.h"

#include <algorithm>
#include <vector>

#include "base/html.h"
#include "fmt/format.h"

namespace flopwatch::fleet {
namespace {

// Geometry, in the drawing's own units.
constexpr double kWidth = 1120, kFlowHeight = 220, kTop = 46, kLeft = 10, kBar = 12;
constexpr double kLabelGap = 22, kLabelStep = 38, kRight = 104;
// Thinner branches could not be seen or hit; losses of a smaller share are not drawn.
constexpr double kThinnest = 1.5, kLeastShare = 0.0005;

std::string Hours(double seconds) {
  const double hours = seconds / 3600;
  return fmt::format("{:.{}f} GPU-h", hours, hours < 10 ? 2 : hours < 1000 ? 1 : 0);
}
std::string Share(double part, double whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100 * part / whole) : std::string("-");
}

struct Column {
  SankeyLevel level;
  double seconds = 0;
  std::vector<const SankeyLoss*> losses;  // on the way to the next column
};

// The levels that are known; a loss hangs on the one before the level that it kept time from.
std::vector<Column> ColumnsOf(const Sankey& sankey) {
  std::vector<Column> columns;
  for (const SankeyRow& row : sankey.levels) {
    if (!columns.empty()) {
      for (const SankeyLoss& loss : sankey.losses)
        if (loss.before == row.level && loss.gpu_seconds >= kLeastShare * sankey.deployed_s)
          columns.back().losses.push_back(&loss);
    }
    if (row.gpu_seconds.has_value()) columns.push_back({row.level, *row.gpu_seconds, {}});
  }
  return columns;
}

class Drawing {
 public:
  Drawing(const Sankey& sankey, std::string_view currency,
          absl::FunctionRef<std::string(const SankeyLoss&)> link)
      : deployed_(sankey.deployed_s),
        deployed_money_(sankey.deployed_money),
        currency_(currency),
        link_(link),
        columns_(ColumnsOf(sankey)) {
    size_t most = 1;
    for (const Column& c : columns_) most = std::max(most, c.losses.size());
    height_ = kTop + kFlowHeight + kLabelGap + kLabelStep * static_cast<double>(most) + 8;
    const auto gaps = static_cast<double>(std::max<size_t>(columns_.size(), 2) - 1);
    step_ = (kWidth - kLeft - kRight - kBar) / gaps;
  }

  std::string Draw() {
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" "
        "font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"currentColor\" role=\"img\" "
        "aria-label=\"Where GPU time went, from deployed GPUs to OFU\">\n",
        kWidth, height_);
    for (size_t k = 0; k < columns_.size(); ++k) DrawColumn(k);
    out_ += "</svg>\n";
    return std::move(out_);
  }

 private:
  double HeightOf(double seconds) const {
    return deployed_ > 0 ? kFlowHeight * seconds / deployed_ : 0;
  }
  // "; 12.50 EUR"; "" where no price is known.
  std::string Cost(const std::optional<double>& money) const {
    if (!money.has_value()) return "";
    return fmt::format("; {:.2f}{}{}", *money, currency_.empty() ? "" : " ", currency_);
  }
  void Rect(double x, double y, double width, double height, std::string_view kind,
            std::string_view color, double opacity, std::string_view title) {
    out_ += fmt::format(
        "<rect class=\"sankey-{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.2f}\" "
        "fill=\"{}\" fill-opacity=\"{}\"><title>{}</title></rect>\n",
        kind, x, y, width, height, color, opacity, HtmlEscape(title));
  }
  void Text(double x, double y, std::string_view text, std::string_view more = {}) {
    out_ +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text>\n", x, y, more, HtmlEscape(text));
  }

  void DrawColumn(size_t k) {
    const Column& c = columns_[k];
    const double x = kLeft + step_ * static_cast<double>(k), height = HeightOf(c.seconds);
    const std::string title =
        fmt::format("{}: {}, {} of deployed{}", SankeyLevelTitle(c.level), Hours(c.seconds),
                    Share(c.seconds, deployed_), k == 0 ? Cost(deployed_money_) : "");
    if (k + 1 < columns_.size()) {
      Rect(x + kBar, kTop, step_ - kBar, HeightOf(columns_[k + 1].seconds), "flow", "#4c8bd6", 0.28,
           title);
    }
    Rect(x, kTop, kBar, std::max(height, kThinnest), "level", "#2563b0", 1, title);
    Text(x, kTop - 24, SankeyLevelTitle(c.level), " font-weight=\"600\"");
    Text(x, kTop - 9, Share(c.seconds, deployed_), " opacity=\"0.75\"");
    DrawLosses(c, x);
  }

  void DrawLosses(const Column& c, double x) {
    double lost = 0;
    for (const SankeyLoss* loss : c.losses) lost += HeightOf(loss->gpu_seconds);
    double y = kTop + HeightOf(c.seconds) - lost;
    double label = kTop + kFlowHeight + kLabelGap;
    double end = x + kBar + 0.62 * (step_ - kBar);
    for (const SankeyLoss* loss : c.losses) {
      const double height = std::max(HeightOf(loss->gpu_seconds), kThinnest);
      const bool unmeasured = loss->name == kUnmeasuredName;
      const std::string title =
          fmt::format("{}: {}, {} of deployed{}", loss->title, Hours(loss->gpu_seconds),
                      Share(loss->gpu_seconds, deployed_), Cost(loss->money));
      const std::string address = link_(*loss);
      if (!address.empty()) out_ += fmt::format("<a href=\"{}\">", HtmlEscape(address));
      const std::string_view kind = unmeasured ? "unmeasured" : "loss";
      const std::string_view color = unmeasured ? "#8a8f98" : "#d9822b";
      Rect(x + kBar, y, end - x - kBar, height, kind, color, 0.45, title);
      Rect(end, y, 5, height, kind, color, 1, title);
      out_ += fmt::format(
          "<path d=\"M{0:.1f} {1:.1f}V{2:.1f}\" stroke=\"{3}\" stroke-opacity=\"0.6\" "
          "stroke-dasharray=\"2 3\"/>\n",
          end + 2.5, y + height, label - 12, color);
      Text(x + kBar + 2, label, loss->title);
      Text(x + kBar + 2, label + 14,
           fmt::format("{} · {}", Share(loss->gpu_seconds, deployed_), Hours(loss->gpu_seconds)),
           " opacity=\"0.75\" font-size=\"11\"");
      if (!address.empty()) out_ += "</a>";
      y += HeightOf(loss->gpu_seconds);
      label += kLabelStep;
      end -= 12;
    }
  }

  const double deployed_;
  const std::optional<double> deployed_money_;
  const std::string_view currency_;
  absl::FunctionRef<std::string(const SankeyLoss&)> link_;
  const std::vector<Column> columns_;
  double height_ = 0, step_ = 0;
  std::string out_;
};

}  // namespace

std::string SankeySvg(const Sankey& sankey, std::string_view currency,
                      absl::FunctionRef<std::string(const SankeyLoss& loss)> link) {
  return Drawing(sankey, currency, link).Draw();
}

}  // namespace flopwatch::fleet
