#include "serve/serve.h"

#include <algorithm>
#include <malloc.h>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "base/log.h"
#include "engine/memory_check.h"
#include "infer/batch_generator.h"
#include "infer/conversation_codec.h"
#include "infer/text_generator.h"
#include "serve/body_room.h"
#include "serve/listening_socket.h"
#include "serve/request_worker.h"
#include "serve/scheduler.h"
#include "serve/service.h"
#include "serve/step_message.h"
#include "spec/fit_advice.h"
#include "watch/stop_signals.h"

namespace gptrain {
namespace {

using namespace std::chrono_literals;

// Tokens of a step: enough for matrices that keep all cores busy, few enough that a long prompt
// does not hold up the answers of others for long.
constexpr std::int64_t step_tokens = 512;
// Rows of logits of a step: a prompt whose log-probabilities are wanted is read in such parts.
constexpr std::int64_t step_logits = 128;
// How long an idle server waits for requests before it looks for signals.
constexpr auto alone_patience = 100ms;
// With several ranks, all others wait for the first one, which then reports that there is no work.
constexpr auto ranks_patience = 10ms;
// Longer bodies wait for each other on another thread, which gives its memory back.
constexpr std::int64_t short_body_bytes = std::int64_t{64} << 10;
// Smaller blocks come from the heap; larger than what a step allocates for logits.
constexpr int heap_block_bytes = 1 << 20;
// For the last answers on their way to clients, when the server stops.
constexpr auto flush_time = 5s;

BatchLimits limits_of(const ServeOptions& options) {
    const std::int64_t room = checked_mul(options.answers, options.context);
    const std::int64_t tokens = std::min(std::max(step_tokens, options.answers), room);
    return {.texts = options.answers,
            .positions = options.context,
            .tokens = tokens,
            .logits = std::min(std::max(step_logits, options.answers), tokens)};
}

MemoryPlan checked_memory(const InferenceRun& run, const ServeOptions& options) {
    const auto memory_for = [&](std::int64_t answers) {
        ServeOptions fewer = options;
        fewer.answers = answers;
        return measure_batch_generator(run.plan, run.mesh.place(), memory_of(run.backend),
                                       limits_of(fewer));
    };
    const MemoryPlan memory = memory_for(options.answers);
    const MemoryCheck check(run.backend, run.ranks);
    check.require(memory, [&] {
        const std::int64_t fitting = largest_that_fits(
            1, options.answers,
            [&](std::int64_t answers) { return !check.find_shortage(memory_for(answers)); });
        return fitting > 0 ? text("what would fit: --answers ", fitting)
                           : text("not even --answers 1 would fit; lower --context, or ",
                                  more_ranks_advice());
    });
    return memory;
}

/// The loop of all ranks.
class Server {
public:
    Server(const InferenceRun& run, const ServeOptions& options, const MemoryPlan& memory)
        : run_(run),
          generator_(run.backend, run.mesh, run.plan, limits_of(options), run.observers.actions,
                     memory) {
        generator_.model().load(run.source, run.ranks);
    }

    /// The parts that only rank 0 has.
    struct First {
        Scheduler& scheduler;
        Service& service;
        ServeMetrics& metrics;
    };

    /// Until a signal stops the server. `first`: on rank 0 only.
    void run(const std::optional<First>& first) {
        const StopSignals signals("the server finishes the answers that it has begun and stops");
        for (std::int64_t step = 1;; ++step) {
            run_.observers.watchdog.progress().phase("serving", step);
            StepMessage message;
            if (first) message = next(*first, signals.received() != 0);
            if (run_.ranks.size() > 1)
                message = decode_step(run_.ranks.broadcast(encode_step(message)));
            if (message.stop) return;
            if (message.steps.empty()) {
                // Otherwise they would spin in MPI while the first rank waits for requests.
                if (!first) std::this_thread::sleep_for(ranks_patience);
                continue;
            }
            const auto begin = std::chrono::steady_clock::now();
            generator_.run(message.steps, [&](std::size_t text, std::span<const float> logits) {
                first->scheduler.take(text, logits);
            });
            if (first) count(message, std::chrono::steady_clock::now() - begin, *first);
        }
    }

private:
    StepMessage next(const First& first, bool stops) const {
        Scheduler& scheduler = first.scheduler;
        if (stops) {
            first.service.stop();
            scheduler.drop_waiting();
        }
        const bool idle = scheduler.running() + scheduler.waiting() == 0;
        if (stops && idle) return {.stop = true, .steps = {}};
        const auto patience = run_.ranks.size() > 1 ? ranks_patience : alone_patience;
        for (Answer& answer : first.service.new_answers(idle ? patience : 0ms))
            scheduler.add(std::move(answer));
        StepMessage message = {.stop = false, .steps = scheduler.next_steps()};
        first.metrics.running = scheduler.running();
        first.metrics.waiting = scheduler.waiting();
        return message;
    }

    static void count(const StepMessage& message, std::chrono::duration<double> time,
                      const First& first) {
        std::int64_t tokens = 0;
        for (const TextStep& step : message.steps)
            tokens += std::ssize(step.tokens);
        first.metrics.count_step(time, tokens);
        first.metrics.running = first.scheduler.running();
        first.metrics.prompt_tokens = first.scheduler.prompt_tokens();
        first.metrics.new_tokens = first.scheduler.new_tokens();
    }

    const InferenceRun& run_;
    BatchGenerator generator_;
};

void announce(const ServeOptions& options, int port, const MemoryPlan& memory) {
    const bool six = options.host.find(':') != options.host.npos;
    const std::string host = six ? "[" + options.host + "]" : options.host;
    print("serving ", options.name, " at http://", host, ":", port, "/ (", options.answers,
          " answers at a time, of at most ", options.context, " tokens with their prompts; ",
          human_bytes(memory.total()), ")");
}

/// Reads the bodies of requests, without holding up who answers or asks for little.
class BodyReader {
public:
    explicit BodyReader(Service& service)
        : short_ones_([&](const HttpRequest& request, const auto& client) {
              service.answer(request, client);
          }),
          long_ones_([&](const HttpRequest& request, const auto& client) {
              service.answer(request, client);
              malloc_trim(0);
          }) {}

    void add(HttpRequest request, const std::shared_ptr<HttpAnswer>& client) {
        const bool is_short = std::ssize(request.body) <= short_body_bytes;
        (is_short ? short_ones_ : long_ones_).add(std::move(request), client);
    }

private:
    RequestWorker short_ones_;
    RequestWorker long_ones_;
};

/// A model's own template may be faulty, or use what gptrain does not have: then it cannot chat,
/// but continues texts. A template that was asked for must be right.
struct Conversations {
    std::optional<ConversationCodec> codec;
    std::string fault;

    Conversations(const InferenceRun& run, PromptCodec& prompts, const std::string& given) {
        try {
            if (!given.empty() || ConversationCodec::has_own_template(run))
                codec.emplace(run, prompts, given);
        } catch (const Error& error) {
            if (!given.empty() || error.code() != ExitCode::bad_input) throw;
            fault = error.what();
            if (run.ranks.rank() == 0) warn("the model cannot chat: ", fault, "; see --template");
        }
    }
};

ServiceOptions service_options(const ServeOptions& options, const std::string& chat_fault) {
    return {.model = options.name,
            .token = options.token,
            .loopback = is_loopback(options.host),
            .positions = options.context,
            .places = options.answers,
            .waiting = options.waiting,
            .max_time = options.max_time,
            .room = BodyRoom(options.http.body_bytes),
            .chat_fault = chat_fault};
}

/// The limits, with room for bodies, and no more connections than the system allows.
HttpLimits possible_limits(HttpLimits limits) {
    const std::int64_t wanted = limits.connections;
    limits.connections = possible_connections(wanted);
    limits.unread_bytes = BodyRoom(limits.body_bytes).unread();
    if (limits.connections < wanted) {
        warn("the limit of open files leaves ", limits.connections, " of ", wanted,
             " connections; raise it (ulimit -n), or lower --connections");
    }
    return limits;
}

}  // namespace

std::int64_t needed_connections(const ServeOptions& options) {
    constexpr std::int64_t others = 64;
    return options.answers + options.waiting + others;
}

void serve(const InferenceRun& run, const ServeOptions& given) {
    ServeOptions options = given;
    PromptCodec codec(run);
    run.ranks.run_on_all([&] {
        check_mesh(run.plan, "serve");
        if (options.chat_template.empty() || codec.has_tokenizer()) return;
        fail(ExitCode::usage, "--template: the model has no tokenizer, which a chat needs");
    });
    const Conversations conversations(run, codec, options.chat_template);
    const MemoryPlan memory = checked_memory(run, options);
    std::optional<Server> server;
    server.emplace(run, options, memory);

    ServeMetrics metrics;
    std::optional<Scheduler> scheduler;
    std::optional<Service> service;
    std::optional<BodyReader> reader;
    std::unique_ptr<HttpServer> http;  // ends first: it calls reader and service
    run.ranks.run_on_first([&] {
        // Otherwise malloc raises the limit with each large block, and keeps what is freed.
        mallopt(M_MMAP_THRESHOLD, heap_block_bytes);
        scheduler.emplace(codec, limits_of(options));
        metrics.places = options.answers;
        metrics.positions = options.context;
        service.emplace(codec, conversations.codec ? &*conversations.codec : nullptr,
                        service_options(options, conversations.fault), metrics);
        reader.emplace(*service);
        http = std::make_unique<HttpServer>(
            options.host, narrow<int>(options.port), possible_limits(options.http),
            HttpHandlers{
                .refuse = [&](const HttpRequest& request) { return service->refuse(request); },
                .answer =
                    [&](HttpRequest request, const std::shared_ptr<HttpAnswer>& client) {
                        if (request.method != "POST") return service->answer(request, client);
                        reader->add(std::move(request), client);
                    }});
        announce(options, http->port(), memory);
    });
    std::optional<Server::First> first;
    if (service) first.emplace(Server::First{*scheduler, *service, metrics});
    server->run(first);
    if (http) http->finish(flush_time);
}

}  // namespace gptrain
