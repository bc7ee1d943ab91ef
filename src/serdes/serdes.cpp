// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds serdes by name, and translates between Codec and mlb_serdes. A component is held to what it
// promises: a shape is checked before storage is given, and every tensor comes exactly once.
#include "serdes/serdes.h"
#include "core/component.h"
#include "core/component_values.h"
#include "core/message.h"
#include "core/nearest.h"
#include "core/registry.h"

#include <algorithm>

namespace mlbridge {

namespace {

/// A TensorSink as a component sees it.
class SinkAdaptor : public mlb_tensor_sink {
public:
  SinkAdaptor(const std::vector<TensorSpec> &specs, TensorSink &sink)
      : specs_(specs), sink_(sink), views_(specs.size()), filled_(specs.size(), 0) {
    context = this;
    numbers = [](void *self, uint64_t i, const int64_t *shape, void **data,
                 mlb_error *error) -> mlb_code {
      auto &adaptor = *static_cast<SinkAdaptor *>(self);
      Status s = adaptor.prepare(i, shape, false);
      if (s)
        *data = adaptor.views_[i].data;
      return fail(error, s);
    };
    strings = [](void *self, uint64_t i, const int64_t *shape, mlb_error *error) -> mlb_code {
      return fail(error, static_cast<SinkAdaptor *>(self)->prepare(i, shape, true));
    };
    string = [](void *self, uint64_t i, uint64_t k, mlb_string value, mlb_error *error) {
      return fail(error, static_cast<SinkAdaptor *>(self)->put(i, k, value));
    };
  }

  Status finish(const std::string &where) const {
    for (size_t i = 0; i < specs_.size(); ++i)
      if (!filled_[i])
        return makeError(Code::Internal, where, ": the component did not deliver tensor '",
                         specs_[i].name, "'");
    return Status();
  }

private:
  Status prepare(uint64_t i, const int64_t *shape, bool strings) {
    if (i >= specs_.size())
      return makeError(Code::Internal, "the component delivered tensor ", i, " of ", specs_.size());
    const TensorSpec &spec = specs_[i];
    if (filled_[i])
      return makeError(Code::Protocol, "tensor '", spec.name, "' occurs twice");
    if (strings != (spec.type == ElementType::String))
      return makeError(Code::Internal, "the component mistook the type of tensor '", spec.name,
                       "'");
    Span<const int64_t> lengths(shape, spec.shape.size());
    if (Status s = checkShape(spec, lengths); !s)
      return Status(Code::Protocol, s.message());
    Expected<TensorView> view = sink_.prepare(i, lengths);
    if (!view)
      return view.status();
    views_[i] = *view;
    filled_[i] = 1;
    return Status();
  }
  Status put(uint64_t i, uint64_t k, mlb_string value) {
    if (i >= specs_.size() || !filled_[i] || specs_[i].type != ElementType::String ||
        k >= views_[i].count)
      return makeError(Code::Internal, "the component delivered string ", k, " of tensor ", i,
                       " unasked");
    auto &text = static_cast<std::string *>(views_[i].data)[k];
    if (value.size)
      text.assign(value.data, value.size);
    else
      text.clear();
    return Status();
  }

  const std::vector<TensorSpec> &specs_;
  TensorSink &sink_;
  std::vector<TensorView> views_;
  std::vector<uint8_t> filled_;
};

class ComponentCodec final : public Codec {
public:
  ComponentCodec(std::string name, const mlb_serdes *table, Span<const TensorSpec> specs)
      : name_(std::move(name)), table_(table), specs_(specs.begin(), specs.end()) {}
  ComponentCodec(const ComponentCodec &) = delete;
  ComponentCodec &operator=(const ComponentCodec &) = delete;
  ~ComponentCodec() override {
    if (codec_)
      table_->destroy(codec_);
  }

  Status create(Side side, const Uri &options) {
    for (const TensorSpec &spec : specs_)
      if (Status s = spec.check(); !s)
        return s.withContext(name_);
    const std::vector<mlb_tensor_spec> specs = toComponent(specs_);
    ComponentError error;
    const std::vector<mlb_option> given = toComponent(options.options);
    const mlb_code code =
        given.empty() ? table_->create(specs.data(), specs.size(), &codec_, error.get())
                      : table_->create_with(specs.data(), specs.size(), static_cast<uint32_t>(side),
                                            given.data(), given.size(), &codec_, error.get());
    if (code)
      return error.status(code, name_);
    if (!codec_)
      return makeError(Code::Internal, name_, ": the component gave no codec");
    return Status();
  }

  Status encode(Span<const TensorView> tensors, Buffer &out) const override {
    if (Status status = checkViews(name_, specs_, tensors); !status)
      return status;
    size_t texts = 0;
    for (const TensorView &view : tensors)
      texts += view.type == ElementType::String ? view.count : 0;
    std::vector<mlb_string> strings;
    strings.reserve(texts);
    std::vector<mlb_tensor> raw;
    raw.reserve(tensors.size());
    for (const TensorView &view : tensors) {
      void *data = view.data;
      if (view.type == ElementType::String) {
        data = strings.data() + strings.size();
        for (const std::string &s : view.as<std::string>())
          strings.push_back({s.data(), s.size()});
      }
      raw.push_back({data, view.count, view.shape.data()});
    }

    const size_t start = out.size();
    ComponentError error;
    BufferTail tail(out);
    mlb_code code = table_->encode(codec_, raw.data(), &tail, error.get());
    Status end = tail.finish();
    if (code || !end) {
      (void)out.resize(start);
      return code ? error.status(code, name_) : end.withContext(name_);
    }
    return Status();
  }
  Status decode(Span<const uint8_t> message, TensorSink &sink) const override {
    ComponentError error;
    SinkAdaptor adaptor(specs_, sink);
    if (mlb_code code =
            table_->decode(codec_, message.data(), message.size(), &adaptor, error.get()))
      return error.status(code, name_);
    return adaptor.finish(name_);
  }

private:
  std::string name_;
  const mlb_serdes *table_;
  std::vector<TensorSpec> specs_;
  void *codec_ = nullptr;
};

class ComponentSerDes final : public SerDes {
public:
  ComponentSerDes(std::string name, const mlb_serdes *table, Uri options = {})
      : name_(std::move(name)), table_(table), options_(std::move(options)) {}

  Expected<std::unique_ptr<Codec>> newCodec(Span<const TensorSpec> specs) const override {
    return newCodec(Side::Inputs, specs);
  }
  Expected<std::unique_ptr<Codec>> newCodec(Side side,
                                            Span<const TensorSpec> specs) const override {
    auto codec = std::make_unique<ComponentCodec>(name_, table_, specs);
    if (Status s = codec->create(side, options_); !s)
      return s;
    return Expected<std::unique_ptr<Codec>>(std::move(codec));
  }
  std::unique_ptr<SerDes> withOptions(const Uri &options) const override {
    if (table_->size <= offsetof(mlb_serdes, create_with) || !table_->create_with)
      return nullptr;
    return std::make_unique<ComponentSerDes>(name_, table_, options);
  }

private:
  std::string name_;
  const mlb_serdes *table_;
  const Uri options_; ///< of which only the options matter
};

} // namespace

std::unique_ptr<SerDes> newComponentSerDes(std::string name, const mlb_serdes *table) {
  return std::make_unique<ComponentSerDes>(std::move(name), table);
}

Status Codec::decodeAround(Span<const uint8_t> message, Span<const ExternalSpan> external,
                           TensorSink &sink) const {
  if (!external.empty())
    return makeError(
        Code::Protocol,
        "this serdes does not support tensors outside of the message (in shared memory)");
  return decode(message, sink);
}

Status checkViews(std::string_view serdes, Span<const TensorSpec> specs,
                  Span<const TensorView> tensors) {
  const auto wrong = [&](const std::string &why) {
    return makeError(Code::InvalidArgument, serdes, ": ", why);
  };
  if (tensors.size() != specs.size())
    return wrong("expected " + std::to_string(specs.size()) + " tensors, got " +
                 std::to_string(tensors.size()));
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorView &view = tensors[i];
    const auto about = [&] { return "tensor '" + specs[i].name + "' "; };
    if (view.type != specs[i].type)
      return wrong(about() + "is " + name(specs[i].type) + ", got " + name(view.type));
    if (Status s = checkShape(specs[i], view.shape); !s)
      return wrong(s.message());
    if (elementCount(view.shape) != view.count)
      return wrong(about() + "of shape " + toString(view.shape) + " has " +
                   std::to_string(view.count) + " elements");
  }
  return Status();
}

size_t findNoBool(const uint8_t *bytes, size_t count) {
  uint8_t all = 0;
  for (size_t k = 0; k < count; ++k)
    all |= bytes[k];
  if (all <= 1)
    return count;
  return static_cast<size_t>(std::find_if(bytes, bytes + count, [](uint8_t b) { return b > 1; }) -
                             bytes);
}

/// The serdes of components: by name, and by the URI of their options.
static Registry<std::shared_ptr<const SerDes>> &opened() {
  static auto &all = *new Registry<std::shared_ptr<const SerDes>>;
  return all;
}

Expected<const SerDes *> serdesNamed(std::string_view name) {
  if (name == "bitstream")
    return &bitstreamSerDes();
  if (const auto known = opened().find(name))
    return known->get();
  if (!findComponent)
    return notLinked("serializer", name, "components");
  Expected<const mlb_component *> component = findComponent(ComponentKind::SerDes, name);
  if (!component) {
    // A component of MLBridge says itself what it needs.
    if (component.status().code() != Code::NotFound || name == "json" || name == "protobuf")
      return component.status();
    std::vector<std::string> known = componentNames(ComponentKind::SerDes);
    known.insert(known.end(), {"bitstream", "json", "protobuf"});
    return makeError(Code::NotFound, "no serializer '", name, "'", didYouMean(name, viewsOf(known)),
                     " (", component.status().message(), ")");
  }
  return opened()
      .findOrAdd(name, newComponentSerDes(std::string(name), (*component)->serdes))
      .get();
}

constexpr std::string_view MessageOptions[] = {"proto", "request", "reply"};

bool isSerDesOption(std::string_view key) {
  return key == "serdes" || std::find(std::begin(MessageOptions), std::end(MessageOptions), key) !=
                                std::end(MessageOptions);
}

Expected<ChosenSerDes> serdesOf(const Uri &uri) {
  ChosenSerDes chosen;
  chosen.name = uri.option("serdes", "bitstream");
  Expected<const SerDes *> plain = serdesNamed(chosen.name);
  if (!plain)
    return plain.status();
  chosen.serdes = *plain;
  Uri options;
  std::string_view missing;
  for (const std::string_view key : MessageOptions) {
    const std::string value = uri.option(key);
    if (value.empty())
      missing = key;
    else
      options.options[std::string(key)] = value;
  }
  if (options.options.empty())
    return chosen;
  std::unique_ptr<SerDes> variant = chosen.serdes->withOptions(options);
  if (!variant)
    return makeError(Code::InvalidArgument, "serdes '", chosen.name, "' takes no option '",
                     options.options.begin()->first, "'");
  if (!missing.empty())
    return makeError(
        Code::InvalidArgument,
        "messages of your own .proto file need the options 'proto', 'request' and 'reply'; '",
        missing, "' is missing");
  chosen.hasMessages = true;
  options.scheme = chosen.name;
  chosen.serdes = opened().findOrAdd(options.toString(), std::move(variant)).get();
  chosen.name += ":" + uri.option("request") + "/" + uri.option("reply");
  return chosen;
}

} // namespace mlbridge
