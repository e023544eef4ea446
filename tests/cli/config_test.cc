#include "cli/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace flopwatch::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

GetEnv Env(std::map<std::string, std::string> values) {
  return [values = std::move(values)](std::string_view name) -> std::optional<std::string> {
    const auto it = values.find(std::string(name));
    return it != values.end() ? std::optional<std::string>(it->second) : std::nullopt;
  };
}

std::string Message(const Status& s) { return std::string(s.message()); }

TEST(Config, FlagBeatsEnvironmentBeatsFileBeatsDefault) {
  const std::string file =
      "[scrape]\ninterval = \"20s\"\ntimeout = \"7s\"\n[server]\nlisten = \"127.0.0.1:1\"\n";
  const auto env =
      Env({{"FLOPWATCH_SCRAPE_INTERVAL", "30s"}, {"FLOPWATCH_SERVER_LISTEN", "127.0.0.1:2"}});
  const auto config = ResolvedConfig::Resolve({{"server.listen", {"127.0.0.1:3"}, "--listen"}}, env,
                                              file, "site.toml");
  ASSERT_TRUE(config.ok()) << config.status();
  const auto value = [&](std::string_view key) { return **config->Find(key); };
  EXPECT_EQ(value("server.listen").Text(), "127.0.0.1:3");
  EXPECT_EQ(value("server.listen").origin, "flag --listen");
  EXPECT_EQ(value("scrape.interval").Text(), "30s");
  EXPECT_EQ(value("scrape.interval").origin, "environment FLOPWATCH_SCRAPE_INTERVAL");
  EXPECT_EQ(value("scrape.timeout").Text(), "7s");
  EXPECT_EQ(value("scrape.timeout").origin, "site.toml:3");
  EXPECT_EQ(value("log.level").Text(), "info");
  EXPECT_EQ(value("log.level").origin, "default");
}

TEST(Config, Lists) {
  const auto config = ResolvedConfig::Resolve(
      {}, Env({{"FLOPWATCH_SCRAPE_FILE_SD", "a.json, b.json"}}),
      "[scrape]\ntargets = [\"n1:9400\", \"n2:9400\"]\nhttp_sd = \"http://sd\"\n", "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT((*config->Find("scrape.targets"))->items, ElementsAre("n1:9400", "n2:9400"));
  EXPECT_THAT((*config->Find("scrape.http_sd"))->items,
              ElementsAre("http://sd"));  // one element may go without brackets
  EXPECT_THAT((*config->Find("scrape.file_sd"))->items, ElementsAre("a.json", "b.json"));
  const auto empty = ResolvedConfig::Resolve({}, Env({}), "", "");
  EXPECT_THAT((*empty->Find("scrape.targets"))->items, IsEmpty());
}

TEST(Config, ErrorsNameThePlaceAndWhatWasMeant) {
  const auto error = [](std::string_view file) {
    const auto config = ResolvedConfig::Resolve({}, Env({}), file, "site.toml");
    EXPECT_FALSE(config.ok()) << file;
    EXPECT_EQ(ExitCodeFor(config.status()), ExitCode::kUsage);
    return Message(config.status());
  };
  EXPECT_EQ(error("[server]\nlisen = \"x\"\n"),
            "cannot use the configuration file: site.toml:2: there is no key \"server.lisen\"; did "
            "you mean \"server.listen\"?");
  EXPECT_THAT(error("interval = \"3s\"\n"), HasSubstr("there is no key \"interval\""));
  EXPECT_THAT(error("[scrape]\ninterval = 10\n"), HasSubstr("\"10\" is not a duration"));
  EXPECT_THAT(error("[scrape]\ninterval = [\"10s\"]\n"), HasSubstr("not a list"));
  EXPECT_THAT(error("[scrape]\ntargets = [{a = 1}]\n"), HasSubstr("a list of strings is expected"));
  EXPECT_THAT(error("[store]\nmemory_limit_mb = 100\n"),
              HasSubstr("100 is out of range; give 512 to"));
  EXPECT_THAT(error("[ui]\nenabled = \"maybe\"\n"), HasSubstr("neither true nor false"));
  EXPECT_THAT(error("[log]\nlevel = \"loud\"\n"), HasSubstr("choose one of debug|info|warn|error"));
  EXPECT_THAT(error("[server\n"), HasSubstr("site.toml:1:"));
  EXPECT_THAT(
      Message(ResolvedConfig::Resolve({}, Env({{"FLOPWATCH_SCRAPE_THREADS", "many"}}), "", "")
                  .status()),
      HasSubstr("environment FLOPWATCH_SCRAPE_THREADS"));
}

TEST(Config, AcceleratorTablesAreForTheHardwareTable) {
  EXPECT_TRUE(
      ResolvedConfig::Resolve({}, Env({}), "[[accelerator]]\nname = \"X1\"\nsm_count = 10\n", "f")
          .ok());
}

TEST(Config, UnknownKeyIsNotFoundWithASuggestion) {
  const auto config = ResolvedConfig::Resolve({}, Env({}), "", "");
  EXPECT_THAT(Message(config->Find("scrape.intervall").status()),
              HasSubstr("did you mean \"scrape.interval\"?"));
  EXPECT_EQ(ExitCodeFor(config->Find("nothing.like.it").status()), ExitCode::kNotFound);
}

TEST(Config, MistypedVariablesAreTold) {
  EXPECT_THAT(
      ResolvedConfig::UnknownVariables({"FLOPWATCH_SCRAPE_INTERVALL", "FLOPWATCH_SERVER", "HOME"}),
      ElementsAre("FLOPWATCH_SCRAPE_INTERVALL in the environment names no key; did you mean "
                  "FLOPWATCH_SCRAPE_INTERVAL?"));
}

TEST(Config, Folders) {
  EXPECT_THAT(ConfigFileCandidates(Env({{"HOME", "/h"}})),
              ElementsAre("/h/.config/flopwatch/config.toml", "/etc/flopwatch/config.toml"));
  EXPECT_THAT(ConfigFileCandidates(Env({{"HOME", "/h"}, {"XDG_CONFIG_HOME", "/x"}})),
              ElementsAre("/x/flopwatch/config.toml", "/etc/flopwatch/config.toml"));
  EXPECT_EQ(FindConfigFile("/given.toml", Env({{"FLOPWATCH_CONFIG", "/env.toml"}})), "/given.toml");
  EXPECT_EQ(FindConfigFile("", Env({{"FLOPWATCH_CONFIG", "/env.toml"}})), "/env.toml");
  EXPECT_EQ(DefaultDataDirectory(Env({{"HOME", "/h"}}), true), "/var/lib/flopwatch");
  EXPECT_EQ(DefaultDataDirectory(Env({{"HOME", "/h"}}), false), "/h/.local/share/flopwatch");
  EXPECT_EQ(DefaultDataDirectory(Env({{"HOME", "/h"}, {"XDG_DATA_HOME", "/d"}}), false),
            "/d/flopwatch");
}

TEST(Config, EveryDefaultIsValid) {
  const auto config = ResolvedConfig::Resolve({}, Env({}), "", "");
  ASSERT_TRUE(config.ok()) << config.status();
  for (const ConfigKey& key : ConfigKeys()) EXPECT_TRUE(config->Find(key.name).ok()) << key.name;
}

// Nobody should have to say twice that Slurm is there.
TEST(Config, ASectionSlurmIsEnough) {
  const auto enabled = [](std::string_view file, const GetEnv& env = Env({})) {
    const auto config = ResolvedConfig::Resolve({}, env, file, "c.toml");
    EXPECT_TRUE(config.ok()) << config.status();
    return config.ok() ? (*config->Find("slurm.enabled"))->Text() + " " +
                             (*config->Find("slurm.enabled"))->origin
                       : "";
  };
  EXPECT_EQ(enabled("[slurm]\n"), "true c.toml:1");
  EXPECT_EQ(enabled("[log]\nlevel = \"info\"\n[slurm]\npoll = \"1m\"\n"), "true c.toml:3");
  EXPECT_EQ(enabled("[slurm]\nenabled = false\n"), "false c.toml:2");
  EXPECT_EQ(enabled("[log]\nlevel = \"info\"\n"), "false default");
  EXPECT_EQ(enabled("[slurm]\n", Env({{"FLOPWATCH_SLURM_ENABLED", "false"}})),
            "false environment FLOPWATCH_SLURM_ENABLED");
}

TEST(Config, SlurmIsNotAskedMoreOftenThanEveryThirtySeconds) {
  const auto config = ResolvedConfig::Resolve({}, Env({}), "[slurm]\npoll = \"29s\"\n", "c.toml");
  EXPECT_EQ(std::string(config.status().message()),
            "cannot use slurm.poll (c.toml:2): 29s is too short; write 30s or more");
}

}  // namespace
}  // namespace flopwatch::cli
