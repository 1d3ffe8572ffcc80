// Run a policy file with ONNX Runtime's C API, through its C++ header, as docs/contract.md says.
// g++ -std=c++17 -I INCLUDE examples/consumer.cpp -o consumer -L LIB -lonnxruntime && ./consumer FILE
#include <onnxruntime_cxx_api.h>
#include <cstdio>
#include <map>
#include <regex>
#include <sstream>

using Numbers = std::vector<float>;

// Every list of numbers that stands in `json` behind a name and `key`; use a JSON library in a program of your own.
std::map<std::string, Numbers> lists(const std::string& json, const std::string& name, const std::string& key) {
  std::map<std::string, Numbers> found;
  std::regex entry("\"" + name + "\": \"(\\w+)\",[^{}]*?\"" + key + "\": \\[([^\\]]*)\\]");
  for (std::sregex_iterator it(json.begin(), json.end(), entry), end; it != end; ++it) {
    std::stringstream numbers(std::regex_replace((*it)[2].str(), std::regex(","), " "));
    for (float value; numbers >> value;) found[(*it)[1]].push_back(value);
  }
  return found;
}

int main(int, char** argv) {
  Ort::Env env(ORT_LOGGING_LEVEL_ERROR);
  Ort::Session session(env, argv[1], Ort::SessionOptions{});
  Ort::AllocatorWithDefaultOptions allocator;
  std::string contract = session.GetModelMetadata().LookupCustomMetadataMapAllocated("phalanx.contract", allocator).get();
  auto values = lists(contract, "input", "initial"), low = lists(contract, "name", "low"), high = lists(contract, "name", "high");
  for (auto& [name, least] : low)  // in place of an operator: each command in the middle of its range
    for (size_t i = 0; i < least.size(); ++i) values[name].push_back((least[i] + high[name][i]) / 2);
  values["base_pos"] = {0, 0, 1};  // in place of sensors: at rest a metre up, no peer in range, joints at zero
  std::vector<std::string> in = session.GetInputNames(), out = session.GetOutputNames();
  for (auto& name : in)
    if (name.size() > 5 && name.substr(name.size() - 5) == "_quat") values[name] = {1, 0, 0, 0};
  std::vector<const char*> in_names, out_names;
  for (auto& name : in) in_names.push_back(name.c_str());
  for (auto& name : out) out_names.push_back(name.c_str());
  for (int step = 0; step < 10; ++step) {  // on a robot every control_dt_s
    std::vector<Ort::Value> inputs;
    for (size_t i = 0; i < in.size(); ++i) {
      auto info = session.GetInputTypeInfo(i);
      auto tensor = info.GetTensorTypeAndShapeInfo();
      auto shape = tensor.GetShape();
      for (auto& size : shape) size = size < 0 ? 1 : size;  // one robot, one peer slot, which is not valid
      inputs.push_back(Ort::Value::CreateTensor(allocator, shape.data(), shape.size(), tensor.GetElementType()));
      size_t count = inputs.back().GetTensorTypeAndShapeInfo().GetElementCount();
      if (tensor.GetElementType() == ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL) *inputs.back().GetTensorMutableData<bool>() = false;
      else for (size_t j = 0; j < count; ++j)
        inputs.back().GetTensorMutableData<float>()[j] = j < values[in[i]].size() ? values[in[i]][j] : 0.0f;
    }
    auto outputs = session.Run(Ort::RunOptions{}, in_names.data(), inputs.data(), in.size(), out_names.data(), out.size());
    for (size_t i = 0; i < out.size(); ++i) {
      const float* data = outputs[i].GetTensorData<float>();
      size_t count = outputs[i].GetTensorTypeAndShapeInfo().GetElementCount();
      if (size_t end = out[i].rfind("_out"); end != std::string::npos) values[out[i].substr(0, end)].assign(data, data + count);
      if (step == 9 && out[i] == "target") for (size_t j = 0; j < count; ++j) std::printf("%.5f\n", data[j]);
    }
  }
}
