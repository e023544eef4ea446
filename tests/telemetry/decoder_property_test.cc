// The key invariant of the decoder: what a body decodes to does not depend on what was decoded
// before it. And a judge: a second decoder, written plainly and from the rules in docs/fields.md,
// that knows no cache.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>
#include <set>

#include "decoded.h"
#include "telemetry/exposition.h"

namespace flopwatch::telemetry {
namespace {

// --- a node whose exporter changes from scrape to scrape ---

struct Gpu {
  std::string uuid;
  std::vector<int> instances;  // MIG ids; empty = whole
  std::vector<std::string> jobs;
  bool pod_labels = false;
};

struct Field {
  const char* name;
  const char* column;
  double divisor;
  double max;
  bool board;
  bool on_mig;
};
// What the judge knows of names: independent of the registry's table.
constexpr Field kFields[] = {
    {"DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz", 1, 20000, true, true},
    {"DCGM_FI_DEV_MEM_CLOCK", "mem_clock_mhz", 1, 50000, true, true},
    {"DCGM_FI_DEV_GPU_TEMP", "gpu_temp_c", 1, 1000, true, true},
    {"DCGM_FI_DEV_POWER_USAGE", "power_w", 1, 100000, true, true},
    {"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_j", 1000, 9e12, true, true},
    {"DCGM_FI_DEV_GPU_UTIL", "gpu_util", 100, 1, false, false},
    {"DCGM_FI_DEV_FB_USED", "fb_used_mib", 1, 1e8, false, true},
    {"dcgm_fi_prof_sm_active", "sm_active", 1, 1, false, true},
    {"DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_active", 1, 1, false, true},
    {"DCGM_FI_PROF_DRAM_UTIL_RATIO", "dram_active", 1, 1, false, true},
    {"DCGM_FI_DEV_FAN_SPEED", "dcgm_fi_dev_fan_speed", 1, 0, false, true},
};
constexpr int kFieldCount = static_cast<int>(std::size(kFields));

struct World {
  std::vector<Gpu> gpus;
  std::vector<int> order;          // of the groups
  std::vector<std::string> extra;  // other metrics
  bool comments = true, crlf = false, blanks = false, timestamps = false, interleaved = false;
  std::mt19937_64 rng{1};

  World() {
    for (int g = 0; g < 4; ++g)
      gpus.push_back({fmt::format("GPU-{:04x}", 0xa0 + g), {}, {}, false});
    for (int f = 0; f < kFieldCount; ++f) order.push_back(f);
  }

  std::string Value(const Field& f) {
    const auto kind = rng() % 64;
    if (kind == 0) return "NaN";
    if (kind == 1) return "9223372036854775794";
    if (kind == 2) return "140737488355328.000000";
    if (kind == 3) return "-1";
    if (kind == 4) return "5000000000";
    if (kind == 5) return "1.5e-01";
    if (f.max == 1 && f.divisor == 1)
      return fmt::format("{:.6f}", static_cast<double>(rng() % 1'000'001) / 1e6);
    if (f.divisor == 100) return fmt::format("{}", rng() % 102);
    if (kind % 2 == 0) return fmt::format("{:.6f}", static_cast<double>(rng() % 700'000) / 1e3);
    return fmt::format("{}", rng() % 10'000);
  }

  std::vector<std::string> LinesOf(int field, const Gpu& gpu, size_t index) {
    const Field& f = kFields[field];
    std::vector<std::string> lines;
    std::vector<std::string> ids = {""};
    if (!gpu.instances.empty() && f.on_mig) {
      ids.clear();
      for (const int i : gpu.instances)
        ids.push_back(fmt::format(",GPU_I_PROFILE=\"1g\",GPU_I_ID=\"{}\"", i));
    } else if (!gpu.instances.empty()) {
      return lines;
    }
    const std::string board_value = Value(f);
    for (const std::string& id : ids) {
      const std::string value = f.board ? board_value : Value(f);
      std::vector<std::string> owners = {gpu.pod_labels ? ",pod=\"\",namespace=\"\"" : ""};
      if (!gpu.jobs.empty()) owners.clear();
      for (const auto& job : gpu.jobs) owners.push_back(fmt::format(",hpc_job=\"{}\"", job));
      for (const auto& owner : owners) {
        lines.push_back(fmt::format("{}{}{{gpu=\"{}\",{}UUID=\"{}\"{}{}}}{}{}{}", f.name,
                                    blanks && rng() % 8 == 0 ? " " : "", index, blanks ? " " : "",
                                    gpu.uuid, id, owner, blanks && rng() % 8 == 0 ? "  " : " ",
                                    value, timestamps && rng() % 2 == 0 ? " 1732160546123" : ""));
      }
    }
    return lines;
  }

  std::string Render() {
    std::vector<std::vector<std::string>> groups;
    for (const int f : order) {
      auto& group = groups.emplace_back();
      if (comments)
        group.push_back(
            fmt::format("# HELP {} help\n# TYPE {} gauge", kFields[f].name, kFields[f].name));
      for (size_t g = 0; g < gpus.size(); ++g) {
        for (auto& line : LinesOf(f, gpus[g], g)) group.push_back(std::move(line));
      }
    }
    std::vector<std::string> lines;
    if (interleaved) {
      for (size_t i = 0;; ++i) {
        bool any = false;
        for (auto& g : groups) {
          if (i < g.size()) lines.push_back(g[i]), any = true;
        }
        if (!any) break;
      }
    } else {
      for (auto& g : groups) lines.insert(lines.end(), g.begin(), g.end());
    }
    lines.insert(lines.end(), extra.begin(), extra.end());
    std::string body;
    for (const auto& line : lines) body += line + (crlf ? "\r\n" : "\n");
    return body;
  }

  // One change of the node, as real ones change.
  void Step(uint8_t kind, uint16_t a, uint16_t b) {
    rng.seed(a * 65536u + b);
    if (gpus.empty()) gpus.push_back({"GPU-0000", {}, {}, false});
    Gpu& gpu = gpus[a % gpus.size()];
    switch (kind % 20) {
      case 0:
        std::shuffle(order.begin(), order.end(), rng);
        break;
      case 1:
        gpu.jobs = {fmt::format("{}", b % 5)};
        break;
      case 2:
        gpu.jobs.push_back(fmt::format("{}", b % 5));
        break;
      case 3:
        gpu.jobs.clear();
        break;
      case 4:
        gpu.pod_labels = !gpu.pod_labels;
        break;
      case 5:
        gpu.instances = {static_cast<int>(b % 7), static_cast<int>(7 + b % 3)};
        break;
      case 6:
        gpu.instances.clear();
        break;
      case 7:
        gpus.erase(gpus.begin() + a % gpus.size());
        break;
      case 8:
        gpus.push_back({fmt::format("GPU-{:04x}", b), {}, {}, false});
        break;
      case 9:
        std::swap(gpus.front(), gpu);
        break;
      case 10:
        order.erase(order.begin() + a % order.size());
        if (order.empty()) order.push_back(0);
        break;
      case 11:
        if (order.size() < 24) order.push_back(b % kFieldCount);
        break;  // a group may come twice
      case 12:
        comments = !comments;
        break;
      case 13:
        crlf = !crlf;
        break;
      case 14:
        blanks = !blanks;
        break;
      case 15:
        timestamps = !timestamps;
        break;
      case 16:
        interleaved = !interleaved;
        break;
      case 17:
        extra.push_back(fmt::format("other_metric_{}{{device=\"eth{}\"}} {}", b % 3, a % 50, b));
        break;
      case 18:
        extra.push_back(
            fmt::format("DCGM_FI_DEV_NVLINK_X{{UUID=\"GPU-00a0\",nvlink=\"{}\"}} {}", a % 18, b));
        break;
      case 19:
        if (!extra.empty()) extra.erase(extra.begin() + a % extra.size());
        break;
    }
  }
};

using Steps = std::vector<std::tuple<uint8_t, uint16_t, uint16_t>>;

// Damage no exporter means to do: what a broken network, disk or attacker makes of a body.
void Damage(std::string* body, uint16_t a, uint16_t b) {
  if (body->empty()) return;
  std::mt19937 rng(a * 65536u + b);
  for (int n = 1 + a % 6; n > 0; --n) {
    const size_t at = rng() % body->size();
    switch (rng() % 6) {
      case 0:
        (*body)[at] = static_cast<char>(rng());
        break;
      case 1:
        body->erase(at, 1 + rng() % 40);
        break;
      case 2:
        body->insert(at, body->substr(rng() % body->size(), rng() % 300));
        break;
      case 3:
        (*body)[at] = "\n\"{},=\\ #}"[rng() % 10];
        break;
      case 4:
        body->resize(at);
        break;
      default: {
        const size_t line = body->rfind('\n', at), next = body->find('\n', at);
        if (line != std::string::npos && next != std::string::npos)
          body->insert(next + 1, body->substr(line + 1, next - line));
      }
    }
    if (body->empty()) return;
  }
}

// --- the judge ---

// Reads one line of the World's language; nullopt = not a sample.
struct JudgedLine {
  std::string name;
  std::map<std::string, std::string> labels;
  std::string label_text, value, timestamp;
};
std::optional<JudgedLine> JudgeLine(std::string line) {
  while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
  if (line.empty() || line[0] == '#') return std::nullopt;
  JudgedLine out;
  const size_t open = line.find('{'), close = line.rfind('}');
  out.name = line.substr(0, line.find_first_of(" {"));
  out.label_text = line.substr(open + 1, close - open - 1);
  std::string text = out.label_text;
  while (!text.empty()) {
    const size_t first = text.find_first_not_of(" ,"), equals = text.find('='),
                 end = text.find('"', equals + 2);
    out.labels[text.substr(first, equals - first)] = text.substr(equals + 2, end - equals - 2);
    text = text.substr(end + 1);
  }
  std::string rest = line.substr(close + 1);
  rest.erase(0, rest.find_first_not_of(' '));
  const size_t blank = rest.find(' ');
  out.value = rest.substr(0, blank);
  if (blank != std::string::npos) out.timestamp = rest.substr(blank + 1);
  return out;
}

class Judgement {
 public:
  explicit Judgement(std::string node) : node_(std::move(node)) {}

  void Take(const JudgedLine& line) {
    double raw = 0;
    std::from_chars(line.value.data(), line.value.data() + line.value.size(), raw);
    const std::optional<Micros> t = line.timestamp.empty()
                                        ? std::nullopt
                                        : std::optional<Micros>(std::stoll(line.timestamp) * 1000);
    if (line.value == "NaN") {
      ++out_.refused["not_finite"];
      return;
    }
    if (line.value == "9223372036854775794" || line.value == "140737488355328.000000") {
      ++out_.refused["blank_sentinel"];
      return;
    }
    const auto field = std::find_if(std::begin(kFields), std::end(kFields),
                                    [&](const Field& f) { return f.name == line.name; });
    if (field == std::end(kFields))
      out_.narrow.push_back({line.name, line.label_text, raw, t});
    else
      TakeField(*field, line, raw / field->divisor, t);
  }

  Plain Finish() {
    for (const auto& [entity, board] : board_of_) {
      const auto b = out_.rows.find(board);
      if (b == out_.rows.end() || b->second.values.count("sm_clock_mhz") == 0) continue;
      PlainRow& row = out_.rows[entity];
      row.values.emplace("sm_clock_mhz", b->second.values.at("sm_clock_mhz"));
    }
    for (auto it = out_.rows.begin(); it != out_.rows.end();) {
      if (it->second.values.empty()) {
        it = out_.rows.erase(it);
        continue;
      }
      for (const auto& [job, pod] : owners_[it->first]) {
        OwnerLabels o;
        o.hpc_job = job;
        it->second.owners.push_back(o);
      }
      ++it;
    }
    return std::move(out_);
  }

 private:
  void TakeField(const Field& field, const JudgedLine& line, double value,
                 std::optional<Micros> t) {
    const std::string uuid = line.labels.at("UUID");
    const bool instance = line.labels.count("GPU_I_ID") > 0;
    const std::string entity = instance ? uuid + "/" + line.labels.at("GPU_I_ID") : uuid;
    // Who owns the entity is known from a line whose value is refused too.
    if (line.labels.count("hpc_job")) owners_[entity].insert({line.labels.at("hpc_job"), ""});
    if (instance) board_of_[entity] = uuid;
    if (field.max > 0 && (value > field.max || value < 0)) {
      ++out_.refused["out_of_bounds"];
      return;
    }
    bool ok = true;
    if (instance && field.board) {
      Put(field, uuid, value, t, true);
      if (field.column == std::string("sm_clock_mhz")) {
        ok = Put(field, entity, value, t, false);
      } else if (t) {
        // The line was about the instance too, though its value is the board's.
        PlainRow& row = out_.rows[entity];
        row.timestamp = std::max(row.timestamp.value_or(*t), *t);
      }
    } else {
      ok = Put(field, entity, value, t, false);
    }
    if (!ok) {
      ++out_.refused["duplicate_series"];
    } else {
      ++out_.samples;
    }
    Describe(line, entity, uuid, instance);
  }

  // Stores a value; false where another one is there already. A value of its own takes the place of
  // one that was copied from an instance.
  bool Put(const Field& field, const std::string& who, double value, std::optional<Micros> t,
           bool copy) {
    PlainRow& row = out_.rows[who];
    const auto have = row.values.find(field.column);
    if (have != row.values.end() && !(copied_[who].count(field.column) && !copy)) {
      if (!copy && have->second != value) return false;
    } else {
      row.values[field.column] = value;
      if (copy)
        copied_[who].insert(field.column);
      else
        copied_[who].erase(field.column);
    }
    if (t) row.timestamp = std::max(row.timestamp.value_or(*t), *t);
    return true;
  }

  void Describe(const JudgedLine& line, const std::string& entity, const std::string& uuid,
                bool instance) {
    for (const std::string& who : {entity, uuid}) {
      if (out_.rows.count(who) == 0) continue;
      EntityLabels& l = out_.rows[who].labels;
      l.node = node_;
      const int index = std::stoi(line.labels.at("gpu"));
      l.index = l.index < 0 ? index : std::min(l.index, index);
      if (who == entity && instance) l.mig_profile = "1g";
    }
  }

  const std::string node_;
  Plain out_;
  // By entity: (job, pod); the columns that were copied from an instance; its board.
  std::map<std::string, std::set<std::tuple<std::string, std::string>>> owners_;
  std::map<std::string, std::set<std::string>> copied_;
  std::map<std::string, std::string> board_of_;
};

Plain Judge(const std::string& body, const std::string& node) {
  Judgement judgement(node);
  for (size_t at = 0; at < body.size();) {
    const size_t end = body.find('\n', at);
    if (const auto line = JudgeLine(body.substr(at, end - at))) judgement.Take(*line);
    at = end + 1;
  }
  return judgement.Finish();
}

// --- properties ---

uint64_t SampleLines(const std::string& body) {
  uint64_t n = 0;
  for (size_t at = 0; at < body.size();) {
    size_t end = body.find('\n', at);
    if (end == std::string::npos) end = body.size();
    const size_t first = body.find_first_not_of(" \t\r", at);
    n += first < end && body[first] != '#';
    at = end + 1;
  }
  return n;
}

void CheckAgainstFresh(FieldRegistry* registry, ExpositionDecoder* cached,
                       const std::string& body) {
  const Plain by_cached = ToPlain(cached->Decode(body), *registry);
  ExpositionDecoder fresh(registry, "node");
  const DecodedScrape& scrape = fresh.Decode(body);
  const Plain by_fresh = ToPlain(scrape, *registry);
  if (!(by_cached == by_fresh)) {
    RC_LOG() << "BODY\n" << body << "\nCACHED\n" << by_cached << "\nFRESH\n" << by_fresh;
    RC_FAIL("the cache changed the result");
  }
  RC_ASSERT(SampleLines(body) ==
            scrape.stats.samples + scrape.stats.narrow + scrape.stats.refused_lines());
}

TEST(DecoderProperty, TheCacheChangesNothing) {
  EXPECT_TRUE(rc::check("cached = fresh over a history of changes", [](const Steps& steps) {
    FieldRegistry registry;
    ExpositionDecoder cached(&registry, "node");
    World world;
    CheckAgainstFresh(&registry, &cached, world.Render());
    for (const auto& [kind, a, b] : steps) {
      world.Step(kind, a, b);
      CheckAgainstFresh(&registry, &cached, world.Render());
    }
  }));
}

TEST(DecoderProperty, NorDoesDamage) {
  EXPECT_TRUE(rc::check("cached = fresh on damaged bodies", [](const Steps& steps) {
    FieldRegistry registry;
    ExpositionDecoder cached(&registry, "node");
    World world;
    for (const auto& [kind, a, b] : steps) {
      world.Step(kind, a, b);
      std::string body = world.Render();
      if (b % 3 != 0) Damage(&body, a, b);
      CheckAgainstFresh(&registry, &cached, body);
    }
  }));
}

TEST(DecoderProperty, NorDoTightLimits) {
  EXPECT_TRUE(rc::check("cached = fresh at the limits", [](const Steps& steps) {
    DecodeLimits limits;
    limits.max_series = 20;
    limits.max_entities = 3;
    limits.max_narrow_series = 2;
    limits.max_line_bytes = 90;
    limits.max_labels = 4;
    FieldRegistry registry;
    ExpositionDecoder cached(&registry, "node", limits);
    World world;
    for (const auto& [kind, a, b] : steps) {
      world.Step(kind, a, b);
      std::string body = world.Render();
      if (b % 4 == 0) Damage(&body, a, b);
      const Plain by_cached = ToPlain(cached.Decode(body), registry);
      ExpositionDecoder fresh(&registry, "node", limits);
      const Plain by_fresh = ToPlain(fresh.Decode(body), registry);
      if (!(by_cached == by_fresh)) {
        RC_LOG() << "BODY\n" << body << "\nCACHED\n" << by_cached << "\nFRESH\n" << by_fresh;
        RC_FAIL("the cache changed the result");
      }
    }
  }));
}

// The body's lines as samples of series that somebody keeps; of bodies without times.
struct KeptSeries {
  std::map<std::string, SeriesMemo> memos;  // by the text before the value

  std::vector<SeriesSample> SamplesOf(const std::string& body) {
    std::vector<SeriesSample> samples;
    for (size_t at = 0, end = 0; at < body.size(); at = end + 1) {
      end = body.find('\n', at);
      const std::string line = body.substr(at, end - at);
      if (line.empty() || line[0] == '#') continue;
      const size_t value_at = line.rfind(' ') + 1;
      const std::string token = line.substr(value_at);
      const auto kept = memos.try_emplace(line.substr(0, value_at)).first;
      double value = std::numeric_limits<double>::quiet_NaN();
      if (token != "NaN") std::from_chars(token.data(), token.data() + token.size(), value);
      const std::string_view text = kept->first;
      const size_t name = std::min(text.find_first_of(" {"), text.size());
      samples.push_back({.name = text.substr(0, name),
                         .labels = text.substr(name),
                         .value = value,
                         .with_point = token.find_first_of(".e") != std::string::npos,
                         .memo = value_at % 7 == 0 ? nullptr : &kept->second});
    }
    return samples;
  }
};

TEST(DecoderProperty, SamplesOfKeptSeriesAreTheLinesThatTheyMean) {
  EXPECT_TRUE(rc::check("samples = text", [](const Steps& steps) {
    DecodeLimits tight;
    tight.max_series = 20;
    tight.max_entities = 3;
    tight.max_narrow_series = 2;
    tight.max_labels = 4;
    for (const DecodeLimits& limits : {DecodeLimits(), tight}) {
      FieldRegistry registry;
      // What one knows of a series is nothing to the other.
      ExpositionDecoder one(&registry, "node", limits), other(&registry, "node", limits);
      KeptSeries kept;
      World world;
      for (const auto& [kind, a, b] : steps) {
        world.Step(kind, a, b);
        world.crlf = world.timestamps = false;
        const std::string body = world.Render();
        ExpositionDecoder fresh(&registry, "node", limits);
        const DecodedScrape& scrape = fresh.Decode(body);
        const Plain expected = ToPlain(scrape, registry);
        ExpositionDecoder& decoder = b % 5 == 0 ? other : one;
        const Plain got = ToPlain(
            b % 3 == 0 ? decoder.Decode(body) : decoder.Decode(kept.SamplesOf(body)), registry);
        if (!(got == expected)) {
          RC_LOG() << "BODY\n" << body << "\nGOT\n" << got << "\nEXPECTED\n" << expected;
          RC_FAIL("samples are not their lines");
        }
      }
    }
  }));
}

TEST(DecoderProperty, AgreesWithTheJudge) {
  EXPECT_TRUE(rc::check("decoder = plain second implementation", [](const Steps& steps) {
    FieldRegistry registry;
    ExpositionDecoder decoder(&registry, "node");
    World world;
    for (const auto& [kind, a, b] : steps) {
      world.Step(kind, a, b);
      const std::string body = world.Render();
      const Plain got = ToPlain(decoder.Decode(body), registry);
      const Plain expected = Judge(body, "node");
      if (!(got == expected)) {
        RC_LOG() << "BODY\n" << body << "\nGOT\n" << got << "\nEXPECTED\n" << expected;
        RC_FAIL("decoder and judge disagree");
      }
    }
  }));
}

}  // namespace
}  // namespace flopwatch::telemetry
