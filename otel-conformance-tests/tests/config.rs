//! A table of configurations, loaded by our loader and, if it was built, by a Collector. The results of both must
//! be those of the table; differences are listed with their reasons.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use otel_conformance_tests::collector_program;
use serde::Deserialize;
use serde_yaml::Value;
use tempfile::TempDir;
use warptap::cli::{ConfigArgs, PrintConfigArgs, PrintFormat, PrintMode};
use warptap::commands::{print_config, validate};
use warptap::config::{Environment, Process};

/// A place in a configuration for a value of each type.
const PLACES: [Place; 6] = [
    Place {
        at: "any",
        key: "processors::attributes::actions",
        path: "processors::attributes::actions::0::value",
    },
    Place { at: "bool", key: "exporters::debug::use_internal_logger", path: "" },
    Place { at: "duration", key: "processors::batch::timeout", path: "" },
    Place { at: "int", key: "processors::batch::send_batch_size", path: "" },
    Place { at: "list", key: "processors::batch::metadata_keys", path: "" },
    Place { at: "string", key: "exporters::file::path", path: "" },
];

struct Place {
    at: &'static str,
    key: &'static str,
    /// The path of the printed value, if it differs from the key.
    path: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    base: String,
    env: BTreeMap<String, String>,
    files: BTreeMap<String, String>,
    cases: Vec<Case>,
}

/// A case; the fields are described at the head of the table.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    case: String,
    at: Option<String>,
    yaml: Option<String>,
    over: Option<String>,
    config: Option<Vec<String>>,
    #[serde(default)]
    set: Vec<String>,
    gates: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "given")]
    gives: Option<Value>,
    paths: Option<BTreeMap<String, Value>>,
    error: Option<String>,
    here: Option<Differs>,
    there: Option<Differs>,
}

/// A difference between both loaders.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Differs {
    why: String,
    #[serde(default, deserialize_with = "given")]
    gives: Option<Value>,
    paths: Option<BTreeMap<String, Value>>,
    error: Option<String>,
}

/// Decodes a key that is present, possibly with null.
fn given<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// The expected result of a case.
#[derive(Clone, Debug, PartialEq)]
enum Want {
    Values(Vec<(String, Value)>),
    Refused(String),
}

/// The result of a case: the printed configuration, or the error.
type Got = Result<Value, String>;

impl Case {
    fn path(&self) -> &'static str {
        let place = PLACES.iter().find(|place| Some(place.at) == self.at.as_deref());
        place.map_or("", |place| if place.path.is_empty() { place.key } else { place.path })
    }

    fn want(&self, differs: Option<&Differs>) -> Want {
        let (gives, paths, error) = match differs {
            Some(d) => (&d.gives, &d.paths, &d.error),
            None => (&self.gives, &self.paths, &self.error),
        };
        match (gives, paths, error) {
            (Some(value), None, None) => Want::Values(vec![(self.path().to_owned(), value.clone())]),
            (None, Some(paths), None) => Want::Values(paths.clone().into_iter().collect()),
            (None, None, Some(words)) => Want::Refused(words.clone()),
            _ => panic!("{}: says one of gives, paths and error", self.case),
        }
    }

    /// Returns the text of a generated source, for the forms that have one.
    fn source(&self) -> Option<String> {
        match (&self.at, &self.yaml, &self.over) {
            (Some(at), Some(yaml), None) => {
                let place = PLACES.iter().find(|place| place.at == at).expect(at);
                Some(match place.at {
                    "any" => format!("{}:\n- key: a\n  action: insert\n  value: {yaml}\n", place.key),
                    _ => format!("{}: {yaml}\n", place.key),
                })
            }
            (None, None, Some(over)) => Some(over.clone()),
            (None, None, None) => None,
            _ => panic!("{}: has one of at + yaml, over, config", self.case),
        }
    }

    fn locations(&self) -> Vec<String> {
        let named = |name: &String| if name == "base" { "base.yaml".to_owned() } else { name.clone() };
        match (&self.config, self.source()) {
            (Some(config), None) => config.iter().map(named).collect(),
            (None, Some(_)) => vec!["base.yaml".to_owned(), "case.yaml".to_owned()],
            _ => panic!("{}: has one of at + yaml, over, config", self.case),
        }
    }
}

/// A case with its folder.
struct Bench {
    folder: PathBuf,
    env: BTreeMap<String, String>,
    config: ConfigArgs,
}

impl Bench {
    fn new(table: &Table, case: &Case, root: &Path, index: usize, server: SocketAddr) -> Self {
        let folder = root.join(index.to_string());
        let on_server = |text: &str| text.replace("SERVER", &format!("{server}/{index}"));
        fs::create_dir(&folder).expect("a folder for the case");
        let own =
            [("base.yaml".to_owned(), Some(table.base.clone())), ("case.yaml".to_owned(), case.source())];
        let files = table.files.clone().into_iter().map(|(name, text)| (name, Some(text))).chain(own);
        for (name, text) in files {
            if let Some(text) = text {
                fs::write(folder.join(name), on_server(&text)).expect("the folder can be written to");
            }
        }
        let env = table.env.iter().chain(&case.env).map(|(k, v)| (k.clone(), v.clone())).collect();
        let config = ConfigArgs {
            locations: case.locations().iter().map(|l| on_server(l)).collect(),
            sets: case.set.clone(),
            gates: case.gates.clone().into_iter().collect(),
            collector: None,
        };
        Bench { folder, env, config }
    }

    /// Loads the case with our loader.
    fn load_here(&self) -> Got {
        let validated = validate::run(&self.config, self);
        let args = PrintConfigArgs {
            config: self.config.clone(),
            mode: PrintMode::Unredacted,
            format: PrintFormat::Yaml,
            validate: true,
        };
        let mut out = Vec::new();
        let printed = print_config::run(&args, self, &mut out);
        let error = printed.as_ref().err().map(ToString::to_string);
        assert_eq!(validated.err().map(|e| e.to_string()), error, "both commands report the same");
        match printed {
            Ok(()) => Ok(serde_yaml::from_slice(&out).expect("YAML is printed")),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Loads the case with a Collector.
    fn load_there(&self, program: &Path) -> Got {
        self.command(program, &["validate"])?;
        let out = self.command(program, &["print-config", "--mode=unredacted"])?;
        Ok(serde_yaml::from_str(&out).expect(&out))
    }

    fn command(&self, program: &Path, command: &[&str]) -> Result<String, String> {
        let output = Command::new(program)
            .args(command)
            .args(self.config.locations.iter().map(|l| format!("--config={l}")))
            .args(self.config.sets.iter().map(|s| format!("--set={s}")))
            .args(self.config.gates.iter().map(|g| format!("--feature-gates={g}")))
            .current_dir(&self.folder)
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::null())
            .output()
            .expect("it was built here");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }
}

/// Uses the case's variables, and its folder as the current one.
impl Environment for Bench {
    fn env(&self, name: &str) -> Option<String> {
        self.env.get(name).cloned()
    }

    fn read(&self, path: &str, limit: usize) -> io::Result<Vec<u8>> {
        Process.read(self.folder.join(path).to_str().expect("a name in UTF-8"), limit)
    }

    fn fetch(&self, uri: &str, limit: usize) -> Result<Vec<u8>, String> {
        Process.fetch(uri, limit)
    }
}

/// Starts a server of the files below `root`.
fn serve(root: PathBuf) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The client may have closed the connection.
            let _ = answer(stream, &root);
        }
    });
    address
}

fn answer(mut stream: TcpStream, root: &Path) -> io::Result<()> {
    let mut lines = BufReader::new(stream.try_clone()?).lines().map_while(Result::ok);
    let asked = lines.next().unwrap_or_default();
    lines.find(String::is_empty);
    let path = asked.split(' ').nth(1).unwrap_or_default().trim_start_matches('/');
    let head = |status: &str, len: usize| {
        format!("HTTP/1.1 {status}\r\ncontent-length: {len}\r\nconnection: close\r\n\r\n")
    };
    match fs::read(root.join(path)) {
        Ok(body) => stream.write_all(&[head("200 OK", body.len()).as_bytes(), &body].concat()),
        Err(_) => stream.write_all(head("404 Not Found", 0).as_bytes()),
    }
}

/// Returns the difference between a result and the expected one.
fn difference(got: &Got, want: &Want) -> Option<String> {
    match (got, want) {
        (Err(error), Want::Refused(words)) if error.contains(words) => None,
        (Err(error), _) => Some(format!("refused: {}", error.trim().replace('\n', " | "))),
        (Ok(_), Want::Refused(words)) => Some(format!("accepted, and not refused with {words:?}")),
        (Ok(printed), Want::Values(values)) => {
            let wrong: Vec<String> =
                values.iter().filter_map(|(path, want)| differing(printed, path, want)).collect();
            (!wrong.is_empty()).then(|| wrong.join("; "))
        }
    }
}

fn differing(printed: &Value, path: &str, want: &Value) -> Option<String> {
    let mut found = Some(printed);
    for step in path.split("::") {
        found = found.and_then(|node| match node {
            Value::Sequence(items) => items.get(step.parse::<usize>().ok()?),
            node => node.get(step),
        });
    }
    let found = found.unwrap_or(&Value::Null);
    (!same(found, want)).then(|| format!("{path} is {found:?} and not {want:?}"))
}

/// Compares two values; 1 and 1.0 are equal, and so are an empty list and null, because the Collector prints them
/// alike.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Sequence(a), Value::Sequence(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Value::Sequence(items), Value::Null) | (Value::Null, Value::Sequence(items)) => items.is_empty(),
        _ => a == b,
    }
}

#[test]
fn configurations_have_equal_results_here_and_in_the_collector() {
    let table: Table = serde_yaml::from_str(include_str!("config/cases.yaml")).expect("the table");
    let root = TempDir::new().expect("a folder for a moment");
    let server = serve(root.path().to_owned());
    let program = collector_program();
    if let Err(skip) = &program {
        println!("without a Collector: {skip}");
    }
    let (mut wrong, mut listed) = (String::new(), String::new());
    for (index, case) in table.cases.iter().enumerate() {
        let bench = Bench::new(&table, case, root.path(), index, server);
        let mut note = |side: &str, got: Got, differs: Option<&Differs>| {
            if let Some(difference) = difference(&got, &case.want(differs)) {
                let _ = writeln!(wrong, "{side} | {} | {difference}", case.case);
            } else if let Some(Differs { why, .. }) = differs {
                if difference(&got, &case.want(None)).is_none() {
                    let _ = writeln!(wrong, "{side} | {} | the listed difference is gone", case.case);
                }
                let outcome =
                    got.map_or_else(|error| error.trim().replace('\n', " | "), |_| "accepted".to_owned());
                let _ = writeln!(listed, "{side} | {} | {outcome} | {why}", case.case);
            }
        };
        note("here", bench.load_here(), case.here.as_ref());
        if let Ok(program) = &program {
            note("there", bench.load_there(program), case.there.as_ref());
        }
    }
    println!("{} cases; listed differences:\n{listed}", table.cases.len());
    assert!(table.cases.len() >= 120);
    assert!(wrong.is_empty(), "what is not as the table says:\n{wrong}");
}
