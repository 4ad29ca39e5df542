// The answer to a client while the client does not read it.
#include "serve/http_exchange.h"

#include "catch.h"

namespace gptrain::test {

TEST_CASE("a client that reads its stream too slowly is given up") {
    HttpExchange exchange(nullptr, 4000);
    exchange.begin_events();
    for (std::size_t i = 0; i < 4; ++i)
        exchange.write(std::string(1000, 'x'));
    CHECK_FALSE(exchange.gone());
    exchange.write("x");
    CHECK(exchange.gone());
    exchange.write("x");
    exchange.end();
    CHECK(exchange.gone());
}

}  // namespace gptrain::test
