//! The served model of a process, inferred from its command line, and its known attributes.

use std::path::Path;

use event::ProcessInfo;

/// Options that name a model, in order of precedence: of vLLM, SGLang, TensorRT-LLM, and training scripts.
const MODEL_OPTIONS: [&str; 5] =
    ["--served-model-name", "--model", "--model-path", "--model_path", "--model_name_or_path"];
/// Length limit of a model name; longer values are ignored.
const MODEL_LENGTH_MAX: usize = 200;

/// Returns `gen_ai.request.model` if the command line names a model.
pub(crate) fn model(info: &ProcessInfo) -> Option<&str> {
    let option = MODEL_OPTIONS.iter().find_map(|name| option_value(&info.command, name));
    option.or_else(|| served(&info.command)).filter(|m| !m.is_empty() && m.len() <= MODEL_LENGTH_MAX)
}

/// Returns the value of `--name value` or `--name=value`.
fn option_value<'a>(command: &'a [String], name: &str) -> Option<&'a str> {
    let at = command
        .iter()
        .position(|a| a.strip_prefix(name).is_some_and(|r| r.is_empty() || r.starts_with('=')))?;
    let rest = &command[at][name.len()..];
    rest.strip_prefix('=').or_else(|| command.get(at + 1).map(String::as_str)).filter(|v| !v.starts_with('-'))
}

/// Returns MODEL of `vllm serve MODEL`.
fn served(command: &[String]) -> Option<&str> {
    let at = command.windows(2).position(|w| is_vllm(&w[0]) && w[1] == "serve")?;
    command.get(at + 2).map(String::as_str).filter(|m| !m.starts_with('-'))
}

/// Returns true for the path of vLLM's command.
fn is_vllm(path: &str) -> bool {
    Path::new(path).file_stem().is_some_and(|name| name == "vllm")
}

/// Returns a known attribute of a process.
pub(crate) fn known<'a>(info: &'a ProcessInfo, key: &str) -> Option<&'a str> {
    info.attributes.iter().find(|(k, _)| k == key).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, want: Option<&str>) {
        let command = command.split_whitespace().map(str::to_owned).collect();
        assert_eq!(model(&ProcessInfo { command, ..ProcessInfo::default() }), want);
    }

    #[test]
    fn model_is_an_option_or_argument_of_the_command() {
        check("/usr/bin/python3 /usr/bin/vllm serve meta/llama --port 1", Some("meta/llama"));
        check("python3 -u -X dev train.py --model=meta/llama", Some("meta/llama"));
        check("python3 -m sglang.launch_server --model-path meta/llama", Some("meta/llama"));
        check("/opt/tritonserver --model-repository /models", None);
        check("python3 x.py --model --port", None);
    }

    #[test]
    fn served_model_name_takes_precedence_over_path() {
        check("python3 x.py --model /m/a --served-model-name b", Some("b"));
    }
}
