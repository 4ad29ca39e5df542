// Requests that are slow to read are answered one after the other, on a separate thread.
#include "serve/request_worker.h"

#include <atomic>
#include <future>
#include <string>

#include "catch.h"

namespace gptrain::test {
namespace {

struct Client final : HttpAnswer {
    void send(HttpReply) override { answered.set_value(); }
    void begin_events() override {}
    void write(std::string_view) override {}
    void end() override {}
    bool gone() const override { return left; }

    std::promise<void> answered;
    std::atomic<bool> left = false;
};

HttpRequest request_of(const std::string& body) {
    HttpRequest request;
    request.body = body;
    return request;
}

}  // namespace

TEST_CASE("requests wait for a slow one without holding up the thread that adds them") {
    const auto slow = std::make_shared<Client>();
    const auto leaves = std::make_shared<Client>();
    const auto stays = std::make_shared<Client>();
    std::promise<void> begun;
    std::promise<void> goes_on;
    std::thread::id of_gone;
    std::string order;
    RequestWorker worker([&](const HttpRequest& request, const auto& client) {
        if (request.body == "slow") {
            begun.set_value();
            goes_on.get_future().wait();
        }
        if (client->gone()) {
            of_gone = std::this_thread::get_id();
        } else {
            order += request.body + " ";
            client->send({});
        }
    });
    worker.add(request_of("slow"), slow);
    begun.get_future().wait();
    worker.add(request_of("leaves"), leaves);
    leaves->left = true;
    // A waiting request of a client that has gone is given up at once.
    worker.add(request_of("stays"), stays);
    CHECK(of_gone == std::this_thread::get_id());
    goes_on.set_value();
    stays->answered.get_future().wait();
    CHECK(order == "slow stays ");
}

TEST_CASE("addresses take turns by bytes, and of one the short requests come first") {
    const auto client = std::make_shared<Client>();
    std::promise<void> begun;
    std::promise<void> goes_on;
    std::promise<void> done;
    std::string order;
    RequestWorker* self = nullptr;
    const auto add = [&](const std::string& address, const std::string& name, std::size_t bytes) {
        HttpRequest request = request_of(name + std::string(bytes, ' '));
        request.client = address;
        self->add(std::move(request), client);
    };
    RequestWorker worker([&](const HttpRequest& request, const auto&) {
        const std::string name = request.body.substr(0, 2);
        if (name == "--") {
            begun.set_value();
            goes_on.get_future().wait();
        }
        order += name + " ";
        // One that sends its next request as soon as it has its answer has no more turns.
        if (name == "c1") add("again", "c2", 100'000);
        if (order.size() == 3 * 10) done.set_value();
    });
    self = &worker;
    add("busy", "--", 0);
    begun.get_future().wait();
    for (const char* name : {"a1", "a2", "a3"})
        add("flood", name, 100'000);
    add("flood", "a4", 10);
    for (const char* name : {"b1", "b2", "b3"})
        add("other", name, 100'000);
    add("again", "c1", 100'000);
    goes_on.set_value();
    done.get_future().wait();
    CHECK(order == "-- c1 a4 b1 a1 c2 b2 a2 b3 a3 ");
}

TEST_CASE("a worker ends although requests wait") {
    const auto slow = std::make_shared<Client>();
    const auto waits = std::make_shared<Client>();
    std::promise<void> begun;
    std::promise<void> goes_on;
    std::thread late;
    std::atomic<int> answers = 0;
    {
        RequestWorker worker([&](const HttpRequest&, const auto&) {
            ++answers;
            begun.set_value();
            goes_on.get_future().wait();
        });
        worker.add(request_of("slow"), slow);
        begun.get_future().wait();
        worker.add(request_of("waits"), waits);
        late = std::thread([&] {
            std::this_thread::sleep_for(std::chrono::milliseconds(50));
            goes_on.set_value();
        });
    }
    late.join();
    CHECK(answers == 1);
}

}  // namespace gptrain::test
