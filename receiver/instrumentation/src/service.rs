//! Service name of a process, inferred from its executable and command line.
//!
//! The rules are those of OpenTelemetry's agents: a configured name, which is in the attributes of [`ProcessInfo`],
//! takes precedence; an interpreter has the name of its script; any other process has the name of its executable.

use event::ProcessInfo;

/// Prefixes of the names of interpreters.
const INTERPRETERS: [&str; 8] = ["bash", "java", "node", "perl", "php", "python", "ruby", "sh"];
/// Prefix of the service name of SDKs without a configured one (resource conventions, `service.name`).
const UNKNOWN: &str = "unknown_service";
/// Returns `service.name`.
pub(crate) fn service_name(info: &ProcessInfo) -> String {
    let guess =
        if is_interpreter(&info.executable) { run_by_interpreter(info) } else { Some(&*info.executable) };
    match guess.filter(|name| !name.is_empty()) {
        Some(name) => name.to_owned(),
        None if info.executable.is_empty() => UNKNOWN.to_owned(),
        None => format!("{UNKNOWN}:{}", info.executable),
    }
}

fn is_interpreter(executable: &str) -> bool {
    INTERPRETERS.iter().any(|name| {
        let rest = executable.strip_prefix(name);
        rest.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit() || c == '.'))
    })
}

/// Returns the script, module or archive that an interpreter runs, or the title that the process has set, such as
/// `VLLM::EngineCore`.
fn run_by_interpreter(info: &ProcessInfo) -> Option<&str> {
    let (first, arguments) = info.command.split_first()?;
    if !is_interpreter(file_name(first)) {
        return first.split([':', ' ']).next().map(stem);
    }
    let mut arguments = arguments.iter().map(String::as_str);
    while let Some(argument) = arguments.next() {
        match argument {
            "-m" => return arguments.next(),
            "-jar" => return arguments.next().map(stem),
            // Code on the command line has no name.
            "-c" | "-e" => return None,
            "-W" | "-X" => _ = arguments.next(),
            option if option.starts_with('-') => {}
            script => return Some(stem(script)),
        }
    }
    None
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Returns the name of a file without folder and extension.
fn stem(path: &str) -> &str {
    let name = file_name(path);
    name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(executable: &str, command: &str, name: &str) {
        let command = command.split_whitespace().map(str::to_owned).collect();
        let info = ProcessInfo { executable: executable.to_owned(), command, ..ProcessInfo::default() };
        assert_eq!(service_name(&info), name, "{info:?}");
    }

    #[test]
    fn program_has_the_name_of_its_executable() {
        check("tritonserver", "/opt/tritonserver --model-repository /models", "tritonserver");
        check("shard", "shard", "shard");
    }

    #[test]
    fn interpreter_has_the_name_of_its_script() {
        check("python3.12", "/usr/bin/python3 /usr/bin/vllm serve meta/llama --port 1", "vllm");
        check("python3", "python3 -u -X dev train.py --model=meta/llama", "train");
        check("python3", "python3 -m sglang.launch_server --model-path meta/llama", "sglang.launch_server");
        check("java", "java -Xmx4g -jar /srv/app.jar", "app");
        check("node", "node ./dist/server.js", "server");
    }

    #[test]
    fn process_title_is_the_service_name() {
        check("python3.12", "VLLM::EngineCore_DP0", "VLLM");
        check("python3.12", "sglang::scheduler_TP0", "sglang");
    }

    #[test]
    fn unnamed_process_has_the_unknown_name() {
        check("python3", "python3 -c import", "unknown_service:python3");
        check("python3", "", "unknown_service:python3");
        check("", "", "unknown_service");
    }
}
