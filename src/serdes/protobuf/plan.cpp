// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the fields of the tensors with protobuf's own compiler, into a descriptor pool of its own.
#include "core/message.h"
#include "serdes/protobuf/codec.h"

#include <algorithm>
#include <google/protobuf/compiler/importer.h>
#include <google/protobuf/descriptor.h>
#if GOOGLE_PROTOBUF_VERSION < 4022000
#include <google/protobuf/stubs/logging.h>
#endif
#include <map>

namespace mlbridge::protobuf {
namespace {

namespace pb = google::protobuf;
using pb::FieldDescriptor;

constexpr std::string_view LengthsSuffix = "#lengths";

/// Keeps the first thing that protobuf's compiler says.
class Errors final : public pb::compiler::MultiFileErrorCollector {
public:
  std::string first;
#if GOOGLE_PROTOBUF_VERSION >= 4022000
  void RecordError(absl::string_view file, int line, int column, absl::string_view what) override {
    add(std::string(file), line, column, std::string(what));
  }
#else
  void AddError(const std::string &file, int line, int column, const std::string &what) override {
    add(file, line, column, what);
  }
#endif
private:
  void add(const std::string &file, int line, int column, const std::string &what) {
    if (first.empty())
      first = line < 0 ? file + ": " + what
                       : file + ":" + std::to_string(line + 1) + ":" + std::to_string(column + 1) +
                             ": " + what;
  }
};

/// In one line: "message Advice { repeated float y = 1; }".
std::string oneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  const auto isSpace = [](char a, char b) { return a == ' ' && b == ' '; };
  text.erase(std::unique(text.begin(), text.end(), isSpace), text.end());
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::string described(const FieldDescriptor &field) {
  const std::string type = field.message_type() ? std::string(field.message_type()->full_name())
                           : field.enum_type()  ? std::string(field.enum_type()->full_name())
                                                : std::string(field.type_name());
  return "'" + std::string(field.is_repeated() ? "repeated " : "") + type + " " +
         std::string(field.name()) + " = " + std::to_string(field.number()) + "'";
}

bool mustBeUtf8(const FieldDescriptor &field) {
#if GOOGLE_PROTOBUF_VERSION >= 4022000
  return field.requires_utf8_validation();
#else
  return field.type() == FieldDescriptor::TYPE_STRING &&
         field.file()->syntax() == pb::FileDescriptor::SYNTAX_PROTO3;
#endif
}

/// The element type of a field that is no message or group.
ElementType elementOf(const FieldDescriptor &field) {
  constexpr ElementType Types[] = {ElementType::Int32,  ElementType::Int64,   ElementType::UInt32,
                                   ElementType::UInt64, ElementType::Float64, ElementType::Float32,
                                   ElementType::Bool,   ElementType::Int32,   ElementType::String};
  static_assert(FieldDescriptor::CPPTYPE_INT32 == 1 && FieldDescriptor::CPPTYPE_STRING == 9);
  return Types[field.cpp_type() - FieldDescriptor::CPPTYPE_INT32];
}

class Planner {
public:
  explicit Planner(Plan &plan) : plan_(plan) {
    for (size_t i = 0; i < plan.specs.size(); ++i)
      byName_[plan.specs[i].name] = i;
  }
  /// The field of tensor number `index`, and the messages on the way to it.
  Status add(size_t index, const pb::Descriptor &message) {
    const TensorSpec &spec = plan_.specs[index];
    const std::string tensor = about(spec);
    if (spec.name.size() > LengthsSuffix.size() &&
        std::string_view(spec.name).substr(spec.name.size() - LengthsSuffix.size()) ==
            LengthsSuffix) {
      if (!find(spec.name.substr(0, spec.name.size() - LengthsSuffix.size())))
        return misfit(tensor, " has the lengths of a tensor that the signature does not have");
      return Status(); // comes with the one whose rows it measures
    }
    Field *node = &plan_.root;
    const pb::Descriptor *type = &message;
    std::vector<size_t> around;
    for (size_t from = 0;;) {
      const size_t dot = spec.name.find('.', from);
      const std::string part = spec.name.substr(from, dot - from);
      const FieldDescriptor *field = type->FindFieldByName(part);
      if (!field)
        return misfit(tensor, ": ", std::string(type->full_name()), " has no field '", part, "'");
      if (field->is_map() || field->type() == FieldDescriptor::TYPE_GROUP)
        return misfit(tensor, ": the field ", described(*field), " is a ",
                      field->is_map() ? "map" : "group", ", which cannot be a tensor");
      if (field->real_containing_oneof())
        return misfit(tensor, ": the field ", described(*field),
                      " is part of a oneof, so it may be absent");
      const bool last = dot == std::string::npos;
      if (last != (field->message_type() == nullptr))
        return misfit(tensor, ": the field ", described(*field),
                      last
                          ? " is a message; name one of its fields, as in '" + spec.name + ".field'"
                          : " has no fields");
      auto known = std::find_if(node->fields.begin(), node->fields.end(),
                                [&](const Field &f) { return f.number == field->number(); });
      if (known == node->fields.end()) {
        Field entry;
        entry.path = spec.name.substr(0, dot);
        entry.number = field->number();
        entry.type = static_cast<WireFormatLite::FieldType>(field->type());
        entry.repeated = field->is_repeated();
        entry.packed = field->is_packed();
        entry.presence = field->has_presence();
        entry.utf8 = mustBeUtf8(*field);
        entry.id = plan_.fields++;
        node->fields.push_back(std::move(entry));
        known = node->fields.end() - 1;
      }
      node = &*known;
      if (last) {
        node->tensor = index;
        node->around = std::move(around);
        return fit(*node, *field);
      }
      if (node->repeated)
        around.push_back(node->id);
      type = field->message_type();
      from = dot + 1;
    }
  }
  /// A message without one of its required fields is none.
  Status checkRequired(const pb::Descriptor &message, const Field &node) const {
    for (int i = 0; i < message.field_count(); ++i) {
      const FieldDescriptor &field = *message.field(i);
      const auto used = std::find_if(node.fields.begin(), node.fields.end(),
                                     [&](const Field &f) { return f.number == field.number(); });
      if (used == node.fields.end()) {
        if (field.is_required())
          return misfit("the required field ", described(field), " of ",
                        std::string(message.full_name()), " has no tensor");
      } else if (used->isMessage()) {
        if (Status s = checkRequired(*field.message_type(), *used); !s)
          return s;
      }
    }
    return Status();
  }
  void sort(Field &node) const {
    std::sort(node.fields.begin(), node.fields.end(),
              [](const Field &a, const Field &b) { return a.number < b.number; });
    for (Field &field : node.fields)
      sort(field);
  }

private:
  template <typename... Parts> static Status misfit(const Parts &...why) {
    return makeError(Code::Mismatch, why...);
  }
  std::optional<size_t> find(const std::string &name) const {
    const auto it = byName_.find(name);
    return it == byName_.end() ? std::nullopt : std::optional<size_t>(it->second);
  }
  /// True if type and shape of the tensor are those of the field.
  Status fit(Field &leaf, const FieldDescriptor &field) const {
    const TensorSpec &spec = plan_.specs[leaf.tensor];
    const std::string both = "tensor '" + spec.toString() + "' and the field " + described(field);
    const ElementType expected = elementOf(field);
    if (spec.type != expected)
      return misfit(both, " differ in type: the field is ", name(expected));
    const size_t level = leaf.around.size(), levels = level + (leaf.repeated ? 1 : 0);
    const size_t rank = spec.shape.size();
    if (const auto lengths = find(spec.name + std::string(LengthsSuffix))) {
      const TensorSpec &counts = plan_.specs[*lengths];
      if (!leaf.repeated || level != 1)
        return misfit(both,
                      ": only a repeated field of one repeated message can have rows of different "
                      "lengths, as ",
                      about(counts), " states");
      if (counts.type != ElementType::Int64 || counts.shape.size() != 1)
        return misfit(about(counts), " must be int64[?], got '", counts.toString(), "'");
      if (!rank || spec.shape[0] != Dynamic ||
          std::count(spec.shape.begin(), spec.shape.end(), Dynamic) != 1)
        return misfit(both, ": with '#lengths' the first dimension, and no other, must be "
                            "dynamic: it counts all rows together");
      leaf.lengths = lengths;
    } else if (levels == 0) {
      if (spec.count() != size_t{1})
        return misfit(both, " differ in shape: the field has one value");
      return Status();
    } else if (rank < levels || (!leaf.repeated && rank != levels)) {
      return misfit(both, " differ in shape: the field is repeated in ", levels,
                    levels == 1 ? " dimension" : " dimensions");
    }
    // The bytes that are left for one row.
    for (size_t d = leaf.lengths ? 0 : level; d < rank; ++d) {
      if (spec.shape[d] != Dynamic) {
        if (spec.shape[d] == 0 || static_cast<size_t>(spec.shape[d]) > MaxMessage / leaf.unit)
          return misfit(both, ": a length of ", spec.shape[d],
                        " is not possible for a repeated field");
        leaf.unit *= static_cast<size_t>(spec.shape[d]);
      } else if (leaf.rowsVary) {
        return misfit(both, ": two dynamic lengths cannot be derived from the number of values");
      } else {
        leaf.rowsVary = true;
      }
    }
    return Status();
  }

  Plan &plan_;
  std::map<std::string, size_t> byName_;
};

/// The message that the method takes or returns.
Expected<std::string> messageOf(const pb::DescriptorPool &pool, const std::string &method,
                                const std::string &side, const std::string &proto) {
  std::string dotted = method;
  if (const size_t slash = dotted.rfind('/'); slash != std::string::npos)
    dotted[slash] = '.';
  const pb::MethodDescriptor *found = pool.FindMethodByName(dotted);
  if (!found)
    return makeError(Code::NotFound, "'", proto, "' has no method '", method,
                     "'; name its messages with the options 'request' and 'reply'");
  if (found->client_streaming() || found->server_streaming())
    return Status(Code::Unsupported,
                  "'" + method + "' is a streaming method; only unary methods can be called");
  return std::string((side == "inputs" ? found->input_type() : found->output_type())->full_name());
}

} // namespace

Expected<Plan> makePlan(std::vector<TensorSpec> specs, const std::string &side,
                        const std::string &proto, const std::string &stated,
                        const std::string &method) {
  const size_t slash = proto.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : proto.substr(0, slash + 1);
  const std::string file = slash == std::string::npos ? proto : proto.substr(slash + 1);
  pb::compiler::DiskSourceTree tree;
  tree.MapPath("", folder); // imports are looked for beside the file
  std::string onDisk;
  if (!tree.VirtualFileToDiskFile(file, &onDisk))
    return Status(Code::NotFound, "there is no file '" + proto + "'");
#if GOOGLE_PROTOBUF_VERSION < 4022000
  const pb::LogSilencer silencer; // a file without `syntax` is a line on standard error
#endif
  Errors errors;
  pb::compiler::Importer importer(&tree, &errors);
  const pb::FileDescriptor *parsed = importer.Import(file);
  if (!parsed)
    return Status(Code::InvalidArgument, folder + errors.first);
  std::string name = stated;
  if (name.empty() && !method.empty()) {
    Expected<std::string> found = messageOf(*importer.pool(), method, side, proto);
    if (!found)
      return found.status();
    name = std::move(*found);
  }
  const pb::Descriptor *message = importer.pool()->FindMessageTypeByName(name);
  if (!message) {
    std::string known;
    for (int i = 0; i < parsed->message_type_count(); ++i)
      known += (i ? ", " : "") + std::string(parsed->message_type(i)->full_name());
    return Status(Code::NotFound, "'" + proto + "' has no message '" + name + "'; it has " +
                                      (known.empty() ? "none" : known));
  }
  Plan plan;
  plan.specs = std::move(specs);
  Planner planner(plan);
  plan.root.id = plan.fields++;
  Status status;
  for (size_t i = 0; status.ok() && i < plan.specs.size(); ++i)
    status = planner.add(i, *message);
  if (status.ok())
    status = planner.checkRequired(*message, plan.root);
  if (!status) {
    std::string tensors;
    for (const TensorSpec &spec : plan.specs)
      tensors += (tensors.empty() ? "" : ", ") + spec.toString();
    return makeError(status.code(), status.message(), "; the ", side, " (", tensors,
                     ") do not fit ", name, ": ", oneLine(message->DebugString()));
  }
  planner.sort(plan.root);
  return plan;
}

} // namespace mlbridge::protobuf
