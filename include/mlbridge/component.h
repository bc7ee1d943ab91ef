/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 * The table that joins components (engines, serdes, transports) to the library at run time. C, so
 * that hidden symbols, several copies of the library in one process and other people's compilers
 * all work.
 *
 * A component is a shared object found by its file name, libmlbridge-engine-SCHEME.so,
 * libmlbridge-serdes-NAME.so or libmlbridge-transport-SCHEME.so, that exports one function,
 * mlb_component_entry. It is opened with RTLD_LOCAL on first use and never closed.
 *
 * No function of the table throws, prints or exits. One that returns mlb_code returns 0 or a number
 * of mlbridge::Code, and then may fill in *error. Strings are UTF-8, sizes are bytes, times
 * nanoseconds; nothing is null unless said so. A pointer that a component returns belongs to it and
 * is valid until the object it came from is destroyed, unless stated otherwise. A model, codec or
 * listener may be used from several threads at once; a runner from one; a connection from one
 * reader and one writer at a time. Fields are added only at the end of tables: each starts with its
 * size in bytes, and fields beyond the size that the other side states are absent. A change that
 * breaks this raises MLB_COMPONENT_ABI. */
#ifndef MLBRIDGE_COMPONENT_H
#define MLBRIDGE_COMPONENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the tables. */
#define MLB_COMPONENT_ABI 1u
/* The value of `left` for no deadline. */
#define MLB_NO_DEADLINE UINT64_MAX

/* 0, or a number of mlbridge::Code. */
typedef int32_t mlb_code;

/* The memory to which a failing function writes its message, cut to capacity; not terminated. */
typedef struct mlb_error {
  char *text;        /* the caller's */
  uint64_t capacity; /* bytes at text */
  uint64_t size;     /* out: bytes written */
} mlb_error;

/* UTF-8. */
typedef struct mlb_string {
  const char *data; /* not terminated; may be null if size is 0 */
  uint64_t size;    /* bytes */
} mlb_string;

/* mlbridge::TensorSpec. maximum is null or has rank entries. */
typedef struct mlb_tensor_spec {
  mlb_string name;        /* unique on its side */
  uint32_t type;          /* mlbridge::ElementType */
  uint32_t rank;          /* number of lengths */
  const int64_t *shape;   /* lengths, -1 for a Dynamic one */
  const int64_t *maximum; /* of Dynamic lengths, 0 where none is declared */
} mlb_tensor_spec;

/* Elements, row-major, in the byte order of the machine. For the type String, data points to count
 * mlb_string. shape has as many entries as the rank of the spec. */
typedef struct mlb_tensor {
  void *data;           /* the first element */
  uint64_t count;       /* of elements */
  const int64_t *shape; /* lengths, none Dynamic */
} mlb_tensor;

/* An option of the URI. */
typedef struct mlb_option {
  mlb_string key;   /* unique */
  mlb_string value; /* decoded */
} mlb_option;

/* Borrowed bytes. */
typedef struct mlb_bytes {
  const uint8_t *data; /* the first one */
  uint64_t size;       /* how many */
} mlb_bytes;

/* A byte buffer of the library that a component appends to. */
typedef struct mlb_buffer {
  uint8_t *data;     /* the library's */
  uint64_t size;     /* bytes in use; whoever appends increases it */
  uint64_t capacity; /* bytes allocated */
  /* Makes capacity at least `capacity`; data may move. 0 or LimitExceeded. */
  mlb_code (*reserve)(struct mlb_buffer *self, uint64_t capacity);
} mlb_buffer;

/* ---- engines: a model in this process ---- */

/* An engine: models are shared between threads, a runner is one thread's. */
typedef struct mlb_engine {
  uint64_t size; /* of this table, in bytes */

  /* Opens what the URI names ("policy.onnx"). Errors: NotFound, InvalidModel, Unsupported,
   * InvalidArgument. */
  mlb_code (*open)(mlb_string place, const mlb_option *options, uint64_t options_size, void **model,
                   mlb_error *error);
  void (*close)(void *model); /* called once, after its runners are destroyed */

  /* Key and value number i; NotFound past the last one. */
  mlb_code (*metadata)(void *model, uint64_t i, mlb_string *key, mlb_string *value);
  /* The model's own inputs and outputs. */
  void (*signature)(void *model, const mlb_tensor_spec **inputs, uint64_t *inputs_size,
                    const mlb_tensor_spec **outputs, uint64_t *outputs_size);

  /* shapes: the initial lengths of each input, Dynamic where the caller will resize. */
  mlb_code (*create_runner)(void *model, const int64_t *const *shapes, void **runner,
                            mlb_error *error);
  void (*destroy_runner)(void *runner); /* once */
  /* The buffer of an input, written by the library before evaluate. Strings are read through
   * `data`, an array of mlb_string that the library fills in and keeps alive during evaluate. */
  mlb_code (*input)(void *runner, uint64_t i, mlb_tensor *tensor, mlb_error *error);
  /* New lengths of an input; its buffer may move. */
  mlb_code (*resize)(void *runner, uint64_t i, const int64_t *shape, mlb_tensor *tensor,
                     mlb_error *error);
  /* left: time until the deadline; an engine that cannot be interrupted ignores it. */
  mlb_code (*evaluate)(void *runner, uint64_t left, mlb_error *error);
  /* Valid until the next evaluate. */
  mlb_code (*output)(void *runner, uint64_t i, mlb_tensor *tensor, mlb_error *error);

  /* Null, or absent, in an engine that takes no model from memory. Like open, but from `bytes`;
   * `place` is only a name for messages. The bytes are valid during the call. */
  mlb_code (*open_memory)(mlb_bytes bytes, mlb_string place, const mlb_option *options,
                          uint64_t options_size, void **model, mlb_error *error);
} mlb_engine;

/* ---- serdes: tensors to bytes and back ---- */

/* The receiver of tensors that decode reads. */
typedef struct mlb_tensor_sink {
  void *context; /* handed to each function */
  /* Storage for the numbers of tensor i with this shape; the library checks it against the spec. */
  mlb_code (*numbers)(void *context, uint64_t i, const int64_t *shape, void **data,
                      mlb_error *error);
  /* Sizes the string tensor i. */
  mlb_code (*strings)(void *context, uint64_t i, const int64_t *shape, mlb_error *error);
  /* Element k of the string tensor i, which `strings` has sized. */
  mlb_code (*string)(void *context, uint64_t i, uint64_t k, mlb_string value, mlb_error *error);
} mlb_tensor_sink;

/* A serdes: makes codecs, each for one list of tensors. */
typedef struct mlb_serdes {
  uint64_t size; /* of this table, in bytes */

  /* A codec for these tensors, in this order. The specs are copied. Errors: Unsupported. */
  mlb_code (*create)(const mlb_tensor_spec *specs, uint64_t specs_size, void **codec,
                     mlb_error *error);
  void (*destroy)(void *codec); /* once */
  /* Appends the message to out. Errors: InvalidArgument (text that is not UTF-8), LimitExceeded. */
  mlb_code (*encode)(void *codec, const mlb_tensor *tensors, mlb_buffer *out, mlb_error *error);
  /* Reads a whole message. `data` is followed by at least 64 readable bytes of no meaning. Treat
   * the message as hostile: check lengths before use. Every tensor is delivered exactly once, or it
   * is an error. Errors: Protocol (not a message; missing, duplicate or unknown tensor; wrong type,
   * count or range). */
  mlb_code (*decode)(void *codec, const uint8_t *data, uint64_t size, const mlb_tensor_sink *sink,
                     mlb_error *error);

  /* Null, or absent, in a serdes that takes no options. Like create, for one side of a signature
   * and with the options `proto`, `request` and `reply` of a URI: the codec is for the message that
   * `request` names if side is 0 (inputs), and for that of `reply` if it is 1 (outputs). One that
   * is missing is that of the method which `call` names ("pkg.Service/Method"). Errors: also
   * NotFound, InvalidArgument, Mismatch (the specs do not fit the message; both are printed).
   */
  mlb_code (*create_with)(const mlb_tensor_spec *specs, uint64_t specs_size, uint32_t side,
                          const mlb_option *options, uint64_t options_size, void **codec,
                          mlb_error *error);
} mlb_serdes;

/* ---- transports: bytes between two ends ---- */

/* A connection may be read. */
#define MLB_READ 1u
/* A connection may be written. */
#define MLB_WRITE 2u

/* A transport gives non-blocking ends with descriptors to poll; the library does all waiting. */
typedef struct mlb_transport {
  uint64_t size; /* of this table, in bytes */

  /* The compiler's side. Blocks for at most `left`, and only where a peer is known to be there.
   * Errors: NotFound or Unavailable (nobody there), Busy, DeadlineExceeded, InvalidArgument. */
  mlb_code (*connect)(mlb_string place, const mlb_option *options, uint64_t options_size,
                      uint64_t left, void **connection, mlb_error *error);
  /* The model's side. Errors: Busy (another server), InvalidArgument. */
  mlb_code (*listen)(mlb_string place, const mlb_option *options, uint64_t options_size,
                     void **listener, mlb_error *error);
  /* Never blocks. *connection is null if nobody is waiting. */
  mlb_code (*accept)(void *listener, void **connection, mlb_error *error);
  /* Readable when accept may have something. */
  int (*listener_descriptor)(void *listener);
  /* Closes it and removes what it made in the file system. Its connections stay. */
  void (*stop_listening)(void *listener);

  /* Never block. *done is 0 if the call would block. Errors: Closed. */
  mlb_code (*read)(void *connection, uint8_t *data, uint64_t size, uint64_t *done,
                   mlb_error *error);
  mlb_code (*write)(void *connection, const uint8_t *data, uint64_t size, uint64_t *done,
                    mlb_error *error);
  /* Descriptors whose poll(2) events say that read or write may go on. */
  int (*read_descriptor)(void *connection);
  int (*write_descriptor)(void *connection);
  /* Called once; data written before may still arrive. */
  void (*close)(void *connection);

  /* The rest may be null or absent. */

  /* True if an option of a URI is one of the transport's own; without this function every option
   * counts as one. */
  int (*understands)(mlb_string option);
  /* Like write, for several parts in a row. */
  mlb_code (*write_parts)(void *connection, const mlb_bytes *parts, uint64_t parts_size,
                          uint64_t *done, mlb_error *error);
  /* For a connection from connect that has nothing to poll: the library calls this to wait, and
   * never asks for its descriptors. `wanted` is MLB_READ, MLB_WRITE or both, *ready those that may
   * proceed or have failed. One thread may wait to read and one to write at a time. Errors:
   * DeadlineExceeded. */
  mlb_code (*wait)(void *connection, uint32_t wanted, uint64_t left, uint32_t *ready,
                   mlb_error *error);
  /* The place where the listener listens in the end, such as a port that the system chose. */
  void (*place)(void *listener, mlb_string *place);
  /* For a listener whose I/O the waiting thread must drive: drives it until `left` has passed,
   * something has happened (the descriptors then say so), or interrupt is called. With `left` 0 it
   * handles only what is pending. Several threads may call it. It need not return on EINTR. */
  void (*drive)(void *listener, uint64_t left);
  /* Makes a drive that is under way, or else the next one, return at once. From any thread. */
  void (*interrupt)(void *listener);
  /* One call of a service that is not MLBridge's and does not speak its protocol. Where the URI has
   * the option `call`, connect says nothing to the other side, and what it gives is for call and
   * close only. `method` is what the service calls it ("pkg.Service/Method"), `request` the whole
   * message; the whole reply is appended to *reply, whose limit is the option `max-message`. Blocks
   * for at most `left`, which is sent to the service as its deadline. Several threads may call at
   * once. Errors: Unavailable, DeadlineExceeded, Unsupported (no such service or method), Busy,
   * LimitExceeded, InvalidArgument or PolicyFailed (the service says why). */
  mlb_code (*call)(void *connection, mlb_string method, const uint8_t *request,
                   uint64_t request_size, uint64_t left, mlb_buffer *reply, mlb_error *error);
  /* The most servers that connect may reach at this place: each call reaches the next one of those
   * that are there. 1 without this function. Names are looked up for as long as `left`, in
   * nanoseconds; with 0, or if that fails, a guess that is not too low. */
  uint32_t (*servers)(mlb_string place, uint64_t left);
  /* The address of the server that a connection from connect reached, of those; empty if it is not
   * known. */
  void (*peer)(void *connection, mlb_string *peer);
  /* From now on the listener refuses new connections, and says so to whoever asks for its health,
   * so that compilers go to another server. Its connections stay. */
  void (*drain)(void *listener);
} mlb_transport;

/* ---- the component ---- */

/* A component: exactly one of the three tables. */
typedef struct mlb_component {
  uint64_t size;                  /* of this table, in bytes */
  uint32_t abi;                   /* MLB_COMPONENT_ABI */
  uint32_t version;               /* of the component: major << 16 | minor << 8 | patch */
  mlb_string name;                /* the scheme or serdes name */
  const mlb_engine *engine;       /* null unless it is one */
  const mlb_serdes *serdes;       /* null unless it is one */
  const mlb_transport *transport; /* null unless it is one */
} mlb_component;

/* The one exported function. host_abi is the library's MLB_COMPONENT_ABI; null means that the
 * component cannot work with it. The table is static. Called once, by one thread at a time. */
#define MLB_COMPONENT_ENTRY "mlb_component_entry"
/* The type of that function. */
typedef const mlb_component *(*mlb_component_entry_fn)(uint32_t host_abi);

#ifdef __cplusplus
}
#endif

#endif
