/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The C interface: the model's side out of process, or an environment that is driven. */
#ifndef MLBRIDGE_C_SERVER_H
#define MLBRIDGE_C_SERVER_H

#include <mlbridge/c/function.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Used by one thread at a time, except for stop and drain. */
typedef struct mlbridge_server mlbridge_server;
/* One thing that a compiler, or a driver, sent. */
typedef struct mlbridge_event mlbridge_event;

/* Zero stands for the default of each field. */
typedef struct mlbridge_server_options {
  uint64_t size;                       /* sizeof(mlbridge_server_options) */
  const mlbridge_signature *signature; /* null: takes what each compiler states, or `agents` */
  const mlbridge_agent_spec *agents;   /* several, instead of a signature */
  uint64_t agents_size;                /* number of them */
  const char *const *metadata;         /* key, value, key, value, ... */
  uint64_t metadata_size;              /* number of strings */
  bool environment;                    /* it takes reset and step, not requests */
  uint32_t max_connections;            /* one more is answered MLBRIDGE_BUSY */
  uint32_t max_streams;                /* of a connection */
  uint32_t max_queued;                 /* requests that wait; one more is answered MLBRIDGE_BUSY */
  uint64_t max_message;                /* bytes of one message */
  uint64_t max_queued_bytes;           /* of the requests that wait */
  /* Limits of ServerOptions, with the same defaults; docs/serving.md has them. */
  uint64_t max_control;           /* bytes of any other message */
  uint64_t max_connection_memory; /* bytes kept for one connection */
  uint64_t max_memory;            /* bytes kept for all of them */
  uint64_t max_unsent;            /* bytes that a compiler has not read yet */
  int64_t handshake_time;         /* nanoseconds from connecting to the end of the hello message */
  uint64_t turn_bytes;            /* bytes of one connection before the others' turn */
  uint32_t turn_frames;           /* the same in frames */
  uint32_t max_events;            /* waiting episode events of a stream */
  uint32_t max_tensors;           /* inputs and outputs of a stream */
  bool stateless;                 /* ServerOptions::stateless */
} mlbridge_server_options;

/* Makes the socket or FIFOs and begins to accept. To be closed after its events. */
mlbridge_server *mlbridge_server_listen(const char *uri, const mlbridge_server_options *options);
void mlbridge_server_close(mlbridge_server *server); /* says goodbye to all */
/* The result of listening, or of the last call. The message lives until the next call. */
mlbridge_code mlbridge_server_code(const mlbridge_server *server);
const char *mlbridge_server_message(const mlbridge_server *server);
/* The address where it listens, with its port; lives as long as the server. */
const char *mlbridge_server_uri(const mlbridge_server *server);
/* A count, by the names of docs/protocol.md ("requests"); 0 for another name. */
uint64_t mlbridge_server_statistic(const mlbridge_server *server, const char *name);
/* For the statistics: says that one call of the policy answers `requests` requests. */
void mlbridge_server_note_batch(mlbridge_server *server, uint64_t requests);

/* Makes `next` and `serve` return MLBRIDGE_CANCELLED now and from now on. From any thread or signal
 * handler. */
void mlbridge_server_stop(mlbridge_server *server);
/* mlbridge::Server::drain: stops once no compiler needs it, at the latest after so many
 * nanoseconds. From any thread or signal handler. */
void mlbridge_server_drain(mlbridge_server *server, int64_t most);
/* By stop, or at the end of drain. */
bool mlbridge_server_is_stopped(const mlbridge_server *server);
/* Writing a byte to it makes `next` return MLBRIDGE_CANCELLED once; -1 without a server. */
int mlbridge_server_wake_descriptor(const mlbridge_server *server);

/* Answers requests with the function (function.h) until the server is stopped; `data` is handed to
 * each call. If the function fails, so does that request. Returns MLBRIDGE_CANCELLED, or the
 * server's failure. */
mlbridge_code mlbridge_server_serve(mlbridge_server *server, mlbridge_function function,
                                    void *data);

/* The next event, which the caller destroys; null, with the server's code, if there is none within
 * so many nanoseconds (negative: no limit): MLBRIDGE_DEADLINE_EXCEEDED, MLBRIDGE_CANCELLED. */
mlbridge_event *mlbridge_server_next(mlbridge_server *server, int64_t nanoseconds);
/* mlbridge::Server::nextOfBatch, with the wait in nanoseconds. Null, with
 * MLBRIDGE_DEADLINE_EXCEEDED, when the batch is complete, and as above. */
mlbridge_event *mlbridge_server_next_of_batch(mlbridge_server *server, int64_t max_wait);
/* One that was not answered is answered MLBRIDGE_POLICY_FAILED. */
void mlbridge_event_destroy(mlbridge_event *event);

/* The kind of an event, and how it is answered. */
typedef uint32_t mlbridge_event_kind;
enum {
  MLBRIDGE_EVENT_REQUEST = 0,       /* answer with reply or fail */
  MLBRIDGE_EVENT_EPISODE_BEGIN = 1, /* no answer */
  MLBRIDGE_EVENT_REWARD = 2,        /* no answer */
  MLBRIDGE_EVENT_EPISODE_END = 3,   /* no answer */
  MLBRIDGE_EVENT_RESET = 4,         /* of an environment: answer with reply_step or fail */
  MLBRIDGE_EVENT_STEP = 5           /* the same */
};
/* Its kind; MLBRIDGE_EVENT_REQUEST for null. */
mlbridge_event_kind mlbridge_event_get_kind(const mlbridge_event *event);
/* Its inputs and outputs, for the functions mlbridge_call_*, with the context. For an
 * environment the inputs are the action, the outputs the observation. Belongs to the event. */
mlbridge_call *mlbridge_event_call(mlbridge_event *event);
/* The number of the connection, of the stream on it, and of the requests answered in this episode
 * before. */
uint64_t mlbridge_event_connection(const mlbridge_event *event);
uint32_t mlbridge_event_stream(const mlbridge_event *event);
uint64_t mlbridge_event_step(const mlbridge_event *event);
double mlbridge_event_reward(const mlbridge_event *event); /* of a reward */
uint64_t mlbridge_event_seed(const mlbridge_event *event); /* of a reset */
/* How an episode ended; the message lives as long as the event. */
mlbridge_code mlbridge_event_outcome(const mlbridge_event *event, const char **message);
/* True if a limit ended the episode, not a terminal state. */
bool mlbridge_event_is_truncated(const mlbridge_event *event);

/* Sends the outputs. Errors: MLBRIDGE_CLOSED (the compiler is gone), MLBRIDGE_LIMIT_EXCEEDED,
 * MLBRIDGE_INVALID_ARGUMENT (answered already, or no request). */
mlbridge_code mlbridge_event_reply(mlbridge_event *event);
/* mlbridge::Event::setAgent: before the outputs are written. */
mlbridge_code mlbridge_event_set_agent(mlbridge_event *event, uint64_t agent);
/* Answers a reset or step with the rewards of all agents of the server, or of the only one. With
 * `done` the outputs are not sent. */
mlbridge_code mlbridge_event_reply_step(mlbridge_event *event, const double *rewards,
                                        uint64_t rewards_size, bool done, bool truncated);
/* mlbridge::Event::sendLast: before a reply_step with `done`. */
mlbridge_code mlbridge_event_send_last(mlbridge_event *event);
/* Answers with an error; the server keeps running. */
mlbridge_code mlbridge_event_fail(mlbridge_event *event, mlbridge_code code, const char *message);

#ifdef __cplusplus
}
#endif

#endif
