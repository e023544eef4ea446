// Builds the path and query of an API request.
#pragma once

#include <string>
#include <string_view>

#include "net/http.h"

namespace flopwatch::cli {

class QueryString {
 public:
  explicit QueryString(std::string path) : text_(std::move(path)) {}
  // Leaves out what is empty: the server has the defaults.
  QueryString& Add(std::string_view name, std::string_view value) {
    if (value.empty()) return *this;
    text_ += text_.find('?') == std::string::npos ? '?' : '&';
    text_ += std::string(name) + "=" + net::PercentEncode(value);
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace flopwatch::cli
