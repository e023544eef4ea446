// `flopwatch top`: frames as text, keys as state, and escape codes that really turn one frame into
// the next.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <set>
#include <sstream>

#include "base/table.h"
#include "cli/golden.h"
#include "cli/top/frame.h"

namespace flopwatch::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TopData Fleet() {
  TopAnswers a;
  a.status = Canned("status.json");
  a.fleet = Canned("fleet.json");
  a.jobs = Canned("jobs.json");
  a.gpus = Canned("gpus.json");
  a.targets = Canned("targets.json");
  a.source = "http://127.0.0.1:9530";
  TopData data = MakeTopData(a);
  // As after some refreshes.
  for (TopJob& j : data.jobs) j.trend = {0.1, 0.2, std::nullopt, 0.3, j.usage.ofu};
  return data;
}

TopData OneJob() {
  TopAnswers a;
  a.status = Canned("status.json");
  a.gpus = Canned("gpus.json");
  a.detail = Canned("job.json");
  a.detail_id = "2115078";
  return MakeTopData(a);
}

TEST(Top, FleetFrames) {
  TopUi ui;
  ExpectGolden("top_80x24.txt", DrawTop(Fleet(), ui, 80, 24).Text());
  ExpectGolden("top_120x40.txt", DrawTop(Fleet(), ui, 120, 40).Text());
  ExpectGolden("top_60x12.txt", DrawTop(Fleet(), ui, 60, 12).Text());
  ui.ascii = true;
  ui.metric = Metric::kPower;
  ui.sort = JobSort::kOfu;
  ui.selected = 2;
  ExpectGolden("top_ascii_100x30.txt", DrawTop(Fleet(), ui, 100, 30).Text());
}

TEST(Top, OtherStates) {
  TopUi ui;
  ui.help = true;
  ExpectGolden("top_help.txt", DrawTop(Fleet(), ui, 110, 24).Text());
  ui = {};
  ui.filter = "alice";
  ui.typing_filter = true;
  ExpectGolden("top_filter.txt", DrawTop(Fleet(), ui, 100, 24).Text());
  ui = {};
  ui.paused = true;
  TopData broken = Fleet();
  broken.error = "cannot ask the flopwatch server at http://127.0.0.1:9530: nothing is listening";
  ExpectGolden("top_error.txt", DrawTop(broken, ui, 100, 24).Text());
  TopAnswers empty;
  empty.status = Canned("status_offline.json");
  empty.fleet = Canned("fleet_empty.json");
  empty.offline = true;
  ExpectGolden("top_empty.txt", DrawTop(MakeTopData(empty), {}, 100, 24).Text());
}

TEST(Top, JobAndGpu) {
  TopUi ui;
  ui.level = Level::kJob;
  ui.job = "2115078";
  ExpectGolden("top_job.txt", DrawTop(OneJob(), ui, 100, 30).Text());
  ui.level = Level::kGpu;
  ui.gpu = "GPU-node-a-0";
  TopAnswers a;
  a.status = Canned("status.json");
  a.gpus = Canned("gpus.json");
  a.detail = Canned("gpu.json");
  a.detail_id = ui.gpu;
  ExpectGolden("top_gpu.txt", DrawTop(MakeTopData(a), ui, 100, 24).Text());
}

TEST(Top, FitsAnySizeWithoutACrash) {
  const TopData data = Fleet();
  for (const Level level : {Level::kFleet, Level::kJob, Level::kGpu}) {
    for (int width = 1; width <= 140; width += 7) {
      for (int height = 1; height <= 50; height += 3) {
        TopUi ui;
        ui.level = level;
        ui.selected = 3;
        const Screen screen = DrawTop(data, ui, width, height);
        const std::string text = screen.Text();
        EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), height);
      }
    }
  }
}

// What a frame says, word by word; bars, sparklines and cells of the grid are no words.
std::vector<std::string> WordsOf(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream in(text);
  for (std::string word; in >> word;) {
    for (const char* mark : {"▸", "▾"}) {
      if (word.starts_with(mark)) word.erase(0, 3);
    }
    while (word.ends_with(';') || word.ends_with(',')) word.pop_back();  // of a list that goes on
    if (std::any_of(word.begin(), word.end(),
                    [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }))
      out.push_back(word);
  }
  return out;
}

std::string OneLine(const std::string& text) {
  std::string out;
  std::istringstream in(text);
  for (std::string word; in >> word;) out += word + " ";
  return out;
}

// Without the header and the footer, which have less room on a narrow terminal.
std::string Inner(const std::string& text) {
  const size_t from = text.find('\n') + 1;
  return text.substr(from, text.rfind('\n', text.size() - 2) - from);
}

struct Shown {
  std::string name;
  TopData data;
  TopUi ui;
};

// Every screen, of a fleet that has long names, several notes a job and no OFU here and there.
std::vector<Shown> AllScreens() {
  TopData fleet = Fleet();
  fleet.samples_per_s = 12'345;
  fleet.jobs[1].usage.lost_reasons = {{"tensor_missing", 1440}, {"clock_missing", 288}};
  TopData job = OneJob();
  job.gpus[0].ofu.reset(), job.gpus[0].flags = "tensor activity missing; first sample";
  job.gpus[1].node = "accelerator-node-17.cluster.example.org";
  std::vector<Shown> out = {{"fleet", fleet, {}}, {"tree", fleet, {}},  {"help", fleet, {}},
                            {"sort", fleet, {}},  {"error", fleet, {}}, {"nothing", fleet, {}},
                            {"job", job, {}},     {"gpu", job, {}},     {"unknown", fleet, {}}};
  out[1].ui.tree = true;
  for (const char* key : {"user alice", "user bob", "user ", "job 2115078"})
    out[1].ui.open.insert(key);
  out[2].ui.help = true;
  out[3].ui.choosing_sort = true;
  out[4].data.error =
      "cannot ask the flopwatch server at http://127.0.0.1:9530: nothing is listening there; "
      "start one with \"flopwatch serve\"";
  out[5].data.jobs.clear();
  out[6].ui.level = Level::kJob, out[6].ui.job = "2115078";
  out[7].ui.level = Level::kGpu, out[7].ui.gpu = job.gpus[0].gpu;
  out[8].data.fleet.ofu.reset();
  out[8].data.fleet.reason =
      "tensor activity is missing: the exporter does not list DCGM_FI_PROF_PIPE_TENSOR_ACTIVE";
  out[8].ui.metric = Metric::kTensor;
  return out;
}

TEST(Top, NoWordIsCut) {
  for (const Shown& s : AllScreens()) {
    for (const int rows : {0, 1, 2, 3, 4}) {
      TopUi ui = s.ui;
      ui.selected = rows;
      // On a screen that has room for everything, words are whole.
      const std::vector<std::string> all = WordsOf(DrawTop(s.data, ui, 900, 200).Text());
      const std::set<std::string> known(all.begin(), all.end());
      for (const int width : {60, 80, 132}) {
        const std::string text = DrawTop(s.data, ui, width, 24).Text();
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);)
          EXPECT_LE(DisplayWidth(line), width) << s.name << ": " << line;
        for (const std::string& word : WordsOf(text))
          EXPECT_TRUE(known.contains(word))
              << s.name << " at " << width << ": \"" << word << "\" in\n"
              << text;
      }
    }
  }
}

TEST(Top, At80ColumnsNamesNotesCausesAndHelpAreWhole) {
  const std::vector<Shown> screens = AllScreens();
  TopUi ui;
  ui.selected = 4;  // the job without an OFU
  const std::string fleet = OneLine(DrawTop(screens[0].data, ui, 80, 24).Text());
  EXPECT_THAT(fleet, HasSubstr("research/notebook-7f9c4d-very-long-name-of-a-pod-0 "));
  EXPECT_THAT(fleet, HasSubstr("tensor activity missing 100 %"));
  EXPECT_THAT(fleet, HasSubstr("busy, not computing"));
  EXPECT_THAT(fleet, HasSubstr("not computable: tensor activity is missing: the exporter does not "
                               "list DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"));
  ui.selected = 0;
  EXPECT_THAT(OneLine(DrawTop(screens[0].data, ui, 80, 24).Text()),
              HasSubstr("tensor cores idle: 30.7 of 64.0 measured GPU-h (48 %)"));
  const std::string job = OneLine(DrawTop(screens[6].data, screens[6].ui, 80, 24).Text());
  EXPECT_THAT(job, HasSubstr("why: tensor cores idle: 3.7 of 8.0 measured GPU-h (46 %)"));
  const std::string gpu = OneLine(DrawTop(screens[7].data, screens[7].ui, 80, 24).Text());
  EXPECT_THAT(gpu, HasSubstr("no OFU: tensor activity missing; first sample"));
  EXPECT_THAT(OneLine(DrawTop(screens[8].data, screens[8].ui, 80, 24).Text()),
              HasSubstr(screens[8].data.fleet.reason));
  // All of the help is on an ordinary terminal.
  TopUi help;
  help.help = true;
  const auto wide = WordsOf(Inner(DrawTop(screens[0].data, help, 400, 60).Text()));
  EXPECT_EQ(WordsOf(Inner(DrawTop(screens[0].data, help, 80, 24).Text())), wide);
  EXPECT_GT(wide.size(), 150u);
}

TEST(Top, LargeFleetIsFoldedAndSaysSo) {
  TopData data = Fleet();
  const TopGpu gpu = data.gpus[0];
  data.gpus.clear();
  for (int node = 0; node < 1000; ++node) {
    for (int i = 0; i < 8; ++i) {
      data.gpus.push_back(gpu);
      data.gpus.back().node = "node-" + std::to_string(1000 + node);
    }
  }
  data.gpus_total = 100'000;
  const std::string text = DrawTop(data, {}, 120, 40).Text();
  EXPECT_THAT(text, HasSubstr("one cell = 8 GPUs"));
  EXPECT_THAT(text, HasSubstr("92,000 more GPUs were not asked for"));
}

TEST(Top, KeysMoveOpenAndGoBack) {
  const TopData data = Fleet();
  TopUi ui;
  EXPECT_EQ(HandleKey("j", data, &ui), TopAction::kRedraw);
  EXPECT_EQ(ui.selected, 1);
  HandleKey("up", data, &ui);
  HandleKey("k", data, &ui);
  EXPECT_EQ(ui.selected, 0);  // stops at the top
  HandleKey("G", data, &ui);
  EXPECT_EQ(ui.selected, 4);  // five jobs
  HandleKey("home", data, &ui);
  HandleKey("j", data, &ui);
  // By lost GPUs: 2115078 loses 64 x 0.58 = 37.1, then 2114000 16 x 0.69 = 11.0, then 2115090 8 x
  // 0.92 = 7.4.
  EXPECT_EQ(HandleKey("enter", data, &ui), TopAction::kRefresh);
  EXPECT_EQ(ui.level, Level::kJob);
  EXPECT_EQ(ui.job, "2114000");
  EXPECT_EQ(HandleKey("esc", data, &ui), TopAction::kRefresh);
  EXPECT_EQ(ui.level, Level::kFleet);
  EXPECT_EQ(ui.selected, 1);  // where one came from
  EXPECT_EQ(HandleKey("q", data, &ui), TopAction::kQuit);
  EXPECT_EQ(HandleKey("ctrl-c", data, &ui), TopAction::kInterrupt);
}

TEST(Top, FilterSortMetricPauseInterval) {
  const TopData data = Fleet();
  TopUi ui;
  for (const char* key : {"/", "b", "o", "q", "backspace", "b", "enter"})
    HandleKey(key, data, &ui);  // "q" types here
  EXPECT_EQ(ui.filter, "bob");
  ASSERT_EQ(VisibleJobs(data, ui).size(), 1u);
  EXPECT_EQ(VisibleJobs(data, ui)[0]->job, "2115090");
  HandleKey("esc", data, &ui);
  EXPECT_EQ(ui.filter, "");
  HandleKey("o", data, &ui);
  HandleKey("o", data, &ui);
  EXPECT_EQ(ui.sort, JobSort::kOfu);
  EXPECT_EQ(VisibleJobs(data, ui)[0]->job, "2115101");                // OFU 0: the worst first
  EXPECT_FALSE(VisibleJobs(data, ui).back()->usage.ofu.has_value());  // unknown last
  HandleKey("m", data, &ui);
  EXPECT_EQ(ui.metric, Metric::kTensor);
  EXPECT_EQ(HandleKey("p", data, &ui), TopAction::kRedraw);
  EXPECT_TRUE(ui.paused);
  EXPECT_EQ(HandleKey("p", data, &ui), TopAction::kRefresh);
  HandleKey("+", data, &ui);
  EXPECT_EQ(ui.interval_s, 10);
  for (int i = 0; i < 20; ++i) HandleKey("-", data, &ui);
  EXPECT_EQ(ui.interval_s, 1);
}

TEST(Top, TreeUnfoldsUsersJobsAndGpus) {
  const TopData data = Fleet();
  TopUi ui;
  EXPECT_EQ(HandleKey("t", data, &ui), TopAction::kRedraw);
  std::vector<TreeRow> rows = TreeRows(data, ui);
  ASSERT_GE(rows.size(), 3u);
  EXPECT_EQ(rows[0].name, "all jobs");
  EXPECT_TRUE(rows[0].open);
  // The parts add up: GPUs and lost GPUs of the users are those of the fleet.
  int64_t gpus = 0, jobs = 0;
  double lost = 0, useful = 0, computable = 0;
  for (const TreeRow& row : rows) {
    if (row.depth != 1) continue;
    gpus += row.gpus;
    jobs += row.jobs;
    lost += row.lost_gpus;
  }
  for (const TopJob& j : data.jobs) {
    if (j.usage.ofu)
      useful += *j.usage.ofu * j.usage.computable_s, computable += j.usage.computable_s;
  }
  EXPECT_EQ(gpus, rows[0].gpus);
  EXPECT_EQ(jobs, 5);
  EXPECT_NEAR(lost, rows[0].lost_gpus, 1e-9);
  ASSERT_TRUE(rows[0].ofu.has_value());
  EXPECT_NEAR(*rows[0].ofu, useful / computable, 1e-12);
  // The user of the job that loses most comes first; Enter unfolds it, then its job, then opens a
  // GPU.
  EXPECT_EQ(rows[1].name, "alice");
  HandleKey("j", data, &ui);
  HandleKey("enter", data, &ui);
  rows = TreeRows(data, ui);
  ASSERT_TRUE(rows[1].open);
  ASSERT_EQ(rows[2].depth, 2);
  EXPECT_EQ(rows[2].name, "2115078");
  HandleKey("j", data, &ui);
  HandleKey("right", data, &ui);
  rows = TreeRows(data, ui);
  ASSERT_TRUE(rows[2].open);
  ASSERT_EQ(rows[3].depth, 3);
  ExpectGolden("top_tree_110x32.txt", DrawTop(data, ui, 110, 32).Text());
  TopUi ascii = ui;
  ascii.ascii = true;
  ExpectGolden("top_tree_ascii_70x24.txt", DrawTop(data, ascii, 70, 24).Text());
  // Left goes to the part's whole, then folds it.
  HandleKey("j", data, &ui);
  EXPECT_EQ(ui.selected, 3);
  TopUi gpu = ui;
  EXPECT_EQ(HandleKey("enter", data, &gpu), TopAction::kRefresh);
  EXPECT_EQ(gpu.level, Level::kGpu);
  EXPECT_EQ(gpu.job, "2115078");
  HandleKey("left", data, &ui);
  EXPECT_EQ(ui.selected, 2);
  HandleKey("left", data, &ui);
  EXPECT_FALSE(TreeRows(data, ui)[2].open);
  // An unfolded job opens; Space only folds.
  HandleKey(" ", data, &ui);
  EXPECT_EQ(HandleKey("enter", data, &ui), TopAction::kRefresh);
  EXPECT_EQ(ui.level, Level::kJob);
  EXPECT_EQ(HandleKey("esc", data, &ui), TopAction::kRefresh);
  EXPECT_EQ(ui.selected, 2);
  HandleKey("home", data, &ui);
  HandleKey(" ", data, &ui);
  EXPECT_EQ(TreeRows(data, ui).size(), 1u);  // the fleet alone
}

TEST(Top, MouseSelectsOpensAndSorts) {
  const TopData data = Fleet();
  TopUi ui;
  TopHits hits;
  DrawTop(data, ui, 110, 32, &hits);
  const auto row =
      std::find_if(hits.begin(), hits.end(), [](const TopHit& h) { return h.row == 2; });
  ASSERT_NE(row, hits.end());
  std::string pending =
      "\x1b[<0;5;" + std::to_string(row->y + 1) + "M\x1b[<0;5;" + std::to_string(row->y + 1) + "m";
  const std::vector<std::string> click = DecodeKeys(&pending, false);
  ASSERT_EQ(click.size(), 2u);
  EXPECT_EQ(HandleMouse(click[0], hits, data, &ui), TopAction::kRedraw);
  EXPECT_EQ(ui.selected, 2);
  EXPECT_EQ(HandleMouse(click[1], hits, data, &ui), TopAction::kNone);  // the button goes up
  EXPECT_EQ(HandleMouse("mouse:65:3:3:M", hits, data, &ui), TopAction::kRedraw);
  EXPECT_EQ(ui.selected, 4);  // three rows down, and the last one is 4
  HandleMouse("mouse:64:3:3:M", hits, data, &ui);
  EXPECT_EQ(ui.selected, 1);
  const auto title = std::find_if(hits.begin(), hits.end(),
                                  [](const TopHit& h) { return h.sort == JobSort::kOfu; });
  ASSERT_NE(title, hits.end());
  const std::string on_title =
      "mouse:0:" + std::to_string(title->from) + ":" + std::to_string(title->y) + ":M";
  HandleMouse(on_title, hits, data, &ui);
  EXPECT_EQ(ui.sort, JobSort::kOfu);
  EXPECT_FALSE(ui.reverse);
  HandleMouse(on_title, hits, data, &ui);
  EXPECT_TRUE(ui.reverse);
  ui.selected = 2;
  EXPECT_EQ(HandleMouse(click[0], hits, data, &ui), TopAction::kRefresh);  // a second click opens
  EXPECT_EQ(ui.level, Level::kJob);
  EXPECT_EQ(HandleMouse("mouse:0:0:500:M", hits, data, &ui), TopAction::kNone);
  EXPECT_EQ(HandleMouse("mouse:x", hits, data, &ui), TopAction::kNone);
}

TEST(Top, LightBackgroundHasColoursOfItsOwn) {
  TopUi ui;
  const std::string dark = DrawTop(Fleet(), ui, 100, 30).Colored(ColorDepth::k256);
  ui.light = true;
  const Screen light = DrawTop(Fleet(), ui, 100, 30);
  EXPECT_EQ(light.Text(), DrawTop(Fleet(), {}, 100, 30).Text());
  EXPECT_THAT(dark, HasSubstr(";48;5;237"));
  EXPECT_THAT(light.Colored(ColorDepth::k256), testing::Not(HasSubstr(";48;5;237")));
  EXPECT_EQ(HandleKey("s", Fleet(), &ui), TopAction::kSave);
}

TEST(Top, KeysOutOfBytes) {
  std::string pending = "j\x1b[A\x1b[6~\r\x7f\x03";
  EXPECT_THAT(DecodeKeys(&pending, false),
              ElementsAre("j", "up", "pagedown", "enter", "backspace", "ctrl-c"));
  pending = "\x1b";
  EXPECT_TRUE(DecodeKeys(&pending, false).empty());  // may be the begin of a sequence
  EXPECT_THAT(DecodeKeys(&pending, true), ElementsAre("esc"));
  pending = "\x1b[";
  EXPECT_TRUE(DecodeKeys(&pending, false).empty());
  pending += "B";
  EXPECT_THAT(DecodeKeys(&pending, false), ElementsAre("down"));
  pending = "\x1b[99;99Rx";  // an answer of the terminal nobody asked for
  EXPECT_THAT(DecodeKeys(&pending, false), ElementsAre("x"));
  pending = "\xC3\xA4";
  EXPECT_THAT(DecodeKeys(&pending, false), ElementsAre("ä"));
}

TEST(Top, AnyBytesAndKeysLeaveASoundState) {
  const TopData data = Fleet();
  rc::check("random keys", [&](const std::string& bytes) {
    TopUi ui;
    std::string pending = bytes;
    TopHits hits;
    DrawTop(data, ui, 90, 30, &hits);
    for (const std::string& key : DecodeKeys(&pending, true)) {
      if (key.starts_with("mouse:"))
        HandleMouse(key, hits, data, &ui);
      else
        HandleKey(key, data, &ui);
    }
    RC_ASSERT(pending.empty());
    RC_ASSERT(ui.interval_s >= 1 && ui.interval_s <= 300);
    DrawTop(data, ui, 90, 30);
  });
}

// A terminal that knows what Screen::Diff says: cursor addresses, erase, characters.
class Terminal {
 public:
  Terminal(int width, int height)
      : cells_(static_cast<size_t>(height),
               std::vector<std::string>(static_cast<size_t>(width), " ")) {}
  void Apply(const std::string& codes) {
    for (size_t i = 0; i < codes.size();) {
      if (codes[i] == '\x1b') {
        size_t end = i + 2;
        while (!std::isalpha(static_cast<unsigned char>(codes[end]))) ++end;
        if (codes[end] == 'H') std::sscanf(codes.c_str() + i + 2, "%d;%d", &y_, &x_), --y_, --x_;
        if (codes[end] == 'J') {
          for (auto& row : cells_) std::fill(row.begin(), row.end(), " ");
        }
        i = end + 1;
        continue;
      }
      size_t n = 1;
      while (i + n < codes.size() && (static_cast<unsigned char>(codes[i + n]) & 0xC0) == 0x80) ++n;
      const std::string glyph = codes.substr(i, n);
      cells_.at(static_cast<size_t>(y_)).at(static_cast<size_t>(x_)) = glyph;
      if (DisplayWidth(glyph) == 2)
        cells_[static_cast<size_t>(y_)].at(static_cast<size_t>(x_) + 1) = "";
      x_ += DisplayWidth(glyph);
      i += n;
    }
  }
  std::string Text() const {
    std::string out;
    for (const auto& row : cells_) {
      for (const auto& c : row) out += c;
      while (!out.empty() && out.back() == ' ') out.pop_back();
      out += "\n";
    }
    return out;
  }

 private:
  std::vector<std::vector<std::string>> cells_;
  int x_ = 0, y_ = 0;
};

TEST(Screen, DiffTurnsOneFrameIntoTheNext) {
  const TopData data = Fleet();
  rc::check("any sequence of frames", [&] {
    const int width = *rc::gen::inRange(1, 130), height = *rc::gen::inRange(1, 45);
    Terminal terminal(width, height);
    Screen shown(1, 1);
    if (width == 1 && height == 1) shown = Screen(2, 1);  // the first frame is drawn whole
    for (int i = 0; i < 4; ++i) {
      TopUi ui;
      ui.selected = *rc::gen::inRange(0, 5);
      ui.metric = static_cast<Metric>(*rc::gen::inRange(0, static_cast<int>(Metric::kCount)));
      ui.sort = static_cast<JobSort>(*rc::gen::inRange(0, static_cast<int>(JobSort::kCount)));
      ui.help = *rc::gen::arbitrary<bool>();
      ui.tree = *rc::gen::arbitrary<bool>();
      ui.light = *rc::gen::arbitrary<bool>();
      ui.level = static_cast<Level>(*rc::gen::inRange(0, 3));
      const Screen next = DrawTop(data, ui, width, height);
      terminal.Apply(next.Diff(shown, ColorDepth::k256));
      RC_ASSERT(terminal.Text() == next.Text());
      shown = next;
    }
    RC_ASSERT(shown.Diff(shown, ColorDepth::k16).empty());  // nothing changed, nothing written
  });
}

TEST(Screen, ColoursFollowTheDepth) {
  Screen s(4, 1);
  s.Put(0, 0, "ab", {.foreground = 75, .bold = true});
  EXPECT_EQ(s.Colored(ColorDepth::k256), "\x1b[0;1;38;5;75mab\x1b[0m\n");
  EXPECT_EQ(s.Colored(ColorDepth::kNone), "ab\n");
  EXPECT_THAT(s.Colored(ColorDepth::k16), HasSubstr("\x1b[0;1;9"));  // a bright basic colour
}

TEST(Screen, WideAndHostileCharacters) {
  Screen s(6, 1);
  s.Put(0, 0, "数据库");
  EXPECT_EQ(s.Text(), "数据库\n");
  s.Put(4, 0, "x界");  // the wide one does not fit any more
  EXPECT_EQ(s.Text().substr(0, 7), "数据x");
  Screen t(16, 1);
  t.Put(0, 0, "a\x1b[31mb\xff");
  EXPECT_EQ(t.Text(), "a\\x1b[31mb\\xff\n");
}

}  // namespace
}  // namespace flopwatch::cli
