//! A program recorded by the real binary, and the replay of the recording.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use semconv::{attribute, metric};
use serde_json::Value;
use simulator::player::Player;

use crate::labels::{Seen, lines};

/// A recording and the output of its replay.
pub struct Recorded {
    recording: PathBuf,
    telemetry: PathBuf,
    pub steps: Vec<Seen>,
}

impl Recorded {
    /// Starts a waiting program, records it to its last step, and replays the recording.
    pub fn of(warptap: &Path, mut player: Player, dir: &Path) -> Recorded {
        let [recording, telemetry, steps] = ["recording", "telemetry", "steps"].map(|name| dir.join(name));
        let recorder = Recorder::start(warptap, player.pid(), &recording);
        player.go().unwrap();
        player.done().unwrap();
        recorder.end();
        player.finish().unwrap();
        let mut replay = Command::new(warptap);
        replay.arg("replay").arg(&recording).arg("--out").arg(&telemetry).arg("--steps").arg(&steps);
        let replayed = replay.output().unwrap();
        assert!(replayed.status.success(), "{}", String::from_utf8_lossy(&replayed.stderr));
        Recorded { steps: lines(&steps), recording, telemetry }
    }

    /// Prints the observed calls by API and operation.
    pub fn print_operations(&self) {
        for ((api, operation), count) in operations(&lines(&self.telemetry)) {
            println!("  {count:>8} {api} {operation}");
        }
    }

    /// Copies recording and labels to `out`.
    pub fn keep(&self, out: &Path, name: &str, labels: &Path) {
        fs::create_dir_all(out).unwrap();
        fs::copy(&self.recording, out.join(format!("{name}.rec"))).unwrap();
        fs::copy(labels, out.join(format!("{name}.labels.jsonl"))).unwrap();
    }
}

/// A running `warptap record` of one process.
struct Recorder(Child);

impl Recorder {
    /// Starts the recorder and waits until it records.
    fn start(warptap: &Path, pid: u32, to: &Path) -> Recorder {
        let mut command = Command::new(warptap);
        command.args(["record", "--pid", &pid.to_string(), "--out"]).arg(to).stdout(Stdio::piped());
        let mut recorder = Recorder(command.spawn().unwrap());
        let mut said = BufReader::new(recorder.0.stdout.take().unwrap()).lines();
        let first = said.next().unwrap().unwrap();
        assert!(first.contains(": recording, "), "{first}");
        std::thread::spawn(move || said.for_each(drop));
        recorder
    }

    fn end(mut self) {
        let pid = self.0.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Recorder {
    /// Kills the process, so that a failing test leaves none.
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the last count of each operation, from lines of OTLP JSON.
fn operations(telemetry: &[Value]) -> BTreeMap<(String, String), u64> {
    let under = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let mut counts = BTreeMap::new();
    let resources = telemetry.iter().flat_map(|line| under(line, "resourceMetrics"));
    let metrics = resources.flat_map(|r| under(&r, "scopeMetrics")).flat_map(|s| under(&s, "metrics"));
    for point in metrics
        .filter(|m| m["name"] == metric::GPU_CUDA_OPERATION_COUNT.name())
        .flat_map(|m| under(&m["sum"], "dataPoints"))
    {
        let text = |key: &str| -> String {
            let attributes = under(&point, "attributes");
            let found = attributes.iter().find(|a| a["key"] == key);
            found.and_then(|a| a["value"]["stringValue"].as_str()).unwrap_or_default().to_owned()
        };
        let key = (text(attribute::GPU_CUDA_API), text(attribute::GPU_CUDA_OPERATION_NAME));
        let count = point["asInt"].as_str().and_then(|n| n.parse().ok()).unwrap_or(0);
        counts.insert(key, count);
    }
    counts
}
