// Checks a JSON value against the part of JSON Schema that docs/openapi.json uses; anything else in
// a schema is an error, so that a keyword nobody checks cannot slip in.
#ifndef FLOPWATCH_TESTS_SERVER_JSON_SCHEMA_H_
#define FLOPWATCH_TESTS_SERVER_JSON_SCHEMA_H_

#include <boost/json.hpp>
#include <string>

namespace flopwatch::server {

class SchemaCheck {
 public:
  explicit SchemaCheck(const boost::json::value& document) : document_(document) {}

  // "" when it fits, else the path and what is wrong.
  std::string Check(const boost::json::value& value, const boost::json::value& schema,
                    const std::string& at = "$") const;

 private:
  const boost::json::value& document_;
};

}  // namespace flopwatch::server

#endif  // FLOPWATCH_TESTS_SERVER_JSON_SCHEMA_H_
