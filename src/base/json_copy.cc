#include "base/json_copy.h"

#include <string>
#include <variant>

namespace flopwatch {

void WriteJson(JsonWriter& out, const Json& in) {
  struct Visitor {
    JsonWriter& out;
    void operator()(std::monostate) const { out.Null(); }
    void operator()(bool v) const { out.Value(v); }
    void operator()(int64_t v) const { out.Value(v); }
    void operator()(double v) const { out.Value(v); }
    void operator()(const std::string& v) const { out.Value(v); }
    void operator()(const Json::Array& v) const {
      out.BeginArray();
      for (const Json& e : v) WriteJson(out, e);
      out.EndArray();
    }
    void operator()(const Json::Object& v) const {
      out.BeginObject();
      for (const auto& [key, e] : v) {
        out.Key(key);
        WriteJson(out, e);
      }
      out.EndObject();
    }
  };
  std::visit(Visitor{out}, in.value_);
}

}  // namespace flopwatch
