// What a browser may do with an answer: said in this one place, of every HTML whoever made it.
#pragma once

#include "net/http.h"

namespace flopwatch::api {

// The answer with the headers that say so.
net::Response ForBrowsers(net::Response r);

}  // namespace flopwatch::api
