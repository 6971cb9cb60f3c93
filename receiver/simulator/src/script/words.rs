//! The words that make one action each: how many arguments, which keys, what they come to.

use super::line::Line;
use super::parse::{Reader, Result};
use super::value::{Sort, Span};
use super::verbs::symbol;
use super::{Action, CallSpec, Object, Script};
use crate::functions::by_symbol;
use crate::model::call::Function;

/// A word.
pub(super) struct Word {
    name: &'static str,
    /// How few arguments and how many.
    pub(super) arguments: (usize, usize),
    /// The keys it takes beside those of every statement, and of every call.
    pub(super) keys: &'static [&'static str],
    /// It makes one call.
    pub(super) is_call: bool,
    /// What it comes to.
    pub(super) build: fn(&mut Reader<'_>, &Line<'_>) -> Result<Action>,
}

type Build = fn(&mut Reader<'_>, &Line<'_>) -> Result<Action>;

/// Keys that every call takes.
pub(super) const CALL: &[&str] = &["blocks", "depth", "gpu", "host", "inner", "result"];
const SHAPE: &[&str] = &["block", "grid", "kernels"];
const ANY: &[&str] = &["block", "bytes", "grid", "kernels", "kind", "number", "object", "rows", "stream"];

const fn call(
    name: &'static str,
    least: usize,
    most: usize,
    keys: &'static [&'static str],
    build: Build,
) -> Word {
    Word { name, arguments: (least, most), keys, is_call: true, build }
}

const fn other(name: &'static str, count: usize, keys: &'static [&'static str], build: Build) -> Word {
    Word { name, arguments: (count, count), keys, is_call: false, build }
}

/// Sorted by name.
static WORDS: &[Word] = &[
    other("await", 1, &[], |r, l| Ok(Action::Await(signal(r, l.arguments[0])))),
    other("burn", 1, &[], |_, l| Ok(Action::Burn(Sort::Time.span(l.arguments[0])?))),
    call("call", 1, 1, ANY, any),
    call("capture", 1, 1, &[], capture),
    call("copy", 2, 3, &[], copy),
    other("destroy", 1, &[], |r, l| Ok(Action::Destroy(object(r, l.arguments[0], 0)?))),
    other("event", 1, &["ring"], make_event),
    other("exec", 1, &[], |_, l| Ok(Action::Exec(l.arguments[0].into()))),
    other("fault", 1, &["gpu", "host"], fault),
    call("fill", 2, 2, &[], fill),
    call("free", 1, 1, &[], |r, l| buffer(r, l, "free")),
    other("graph", 2, &["block", "grid", "nodes"], make_graph),
    call("graphlaunch", 2, 2, &[], graph_launch),
    call("hostalloc", 2, 2, &[], |r, l| buffer(r, l, "hostalloc")),
    call("hostfree", 1, 1, &[], |r, l| buffer(r, l, "hostfree")),
    other("instantiate", 2, &[], |r, l| end_capture(r, l, "instantiate")),
    other("join", 1, &[], |r, l| Ok(Action::Join(r.thread_of(l.arguments[0])?))),
    call("launch", 1, 1, SHAPE, |r, l| launch(r, l, "launch")),
    call("launchex", 1, 1, SHAPE, |r, l| launch(r, l, "launchex")),
    call("malloc", 2, 2, &[], |r, l| buffer(r, l, "malloc")),
    call("poll", 1, 1, &["back", "pause"], poll),
    call("query", 1, 1, &["back"], query),
    call("record", 2, 2, &[], record),
    other("signal", 1, &[], |r, l| Ok(Action::Signal(signal(r, l.arguments[0])))),
    other("sleep", 1, &[], |_, l| Ok(Action::Sleep(Sort::Time.span(l.arguments[0])?))),
    other("spawn", 1, &[], |r, l| Ok(Action::Spawn(r.thread_of(l.arguments[0])?))),
    other("spin", 1, &["threads"], spin),
    Word { name: "stream", arguments: (1, 2), keys: &[], is_call: false, build: make_stream },
    call("sync", 1, 2, &["back"], sync),
    other("update", 2, &[], |r, l| end_capture(r, l, "update")),
    call("wait", 2, 2, &["back"], wait),
];

/// Words that the reader knows by itself.
const BLOCKS: [&str; 8] = ["api", "define", "include", "repeat", "seed", "step", "thread", "use"];

/// The word of this name.
pub(super) fn find(name: &str) -> Result<&'static Word> {
    WORDS.binary_search_by_key(&name, |w| w.name).map(|at| &WORDS[at]).map_err(|_| {
        let mut names: Vec<_> = WORDS.iter().map(|w| w.name).chain(BLOCKS).collect();
        names.sort_unstable();
        format!("'{name}' is no word of a statement here; expected one of {}", names.join(", "))
    })
}

/// A call of the function that `verb` means, with the keys that every call takes.
fn spec(reader: &Reader<'_>, line: &Line<'_>, verb: &str) -> Result<CallSpec> {
    let api = reader.script.api;
    let symbol =
        symbol(api, verb).ok_or_else(|| format!("{api:?} has no function for '{verb}'").to_lowercase())?;
    by_name(reader, line, symbol)
}

fn by_name(reader: &Reader<'_>, line: &Line<'_>, symbol: &str) -> Result<CallSpec> {
    let (index, function) = function(reader, symbol)?;
    let mut spec = CallSpec::new(index, function);
    spec.kernel = line.number as u64;
    spec.gpu = line.key("gpu").map(|text| Sort::Time.span(text)).transpose()?;
    spec.host = line.key("host").map_or(Ok(Span::just(0)), |text| Sort::Time.span(text))?;
    spec.blocks = line.key("blocks").map(|text| Sort::Time.value(text)).transpose()?;
    spec.result = line.key("result").map(|text| Sort::Count.value(text)).transpose()?;
    let depth = line.key("depth").map_or(Ok(1), |text| Sort::Count.value(text))?;
    let inner = line.key("inner").map(|symbol| function_index(reader, symbol)).transpose()?;
    spec.inner = inner.map(|index| (index, depth.min(64) as u32));
    Ok(spec)
}

fn function_index(reader: &Reader<'_>, symbol: &str) -> Result<usize> {
    Ok(function(reader, symbol)?.0)
}

fn function(reader: &Reader<'_>, symbol: &str) -> Result<(usize, Function)> {
    let found = by_symbol(symbol).ok_or_else(|| format!("no stub library exports '{symbol}'"))?;
    let (api, library) = (reader.script.api, found.1.probe.library);
    match api.libraries().contains(&library) {
        true => Ok(found),
        false => Err(format!("'{symbol}' is of {library:?}, which api {api:?} does not load").to_lowercase()),
    }
}

fn call_of(spec: CallSpec) -> Result<Action> {
    Ok(Action::Call(Box::new(spec)))
}

fn shape(line: &Line<'_>, spec: &mut CallSpec) -> Result<()> {
    if let Some(text) = line.key("grid") {
        for (side, text) in spec.grid.iter_mut().zip(sides(text)?) {
            *side = Sort::Count.span(text)?;
        }
    }
    if let Some(text) = line.key("block") {
        for (side, text) in spec.block.iter_mut().zip(sides(text)?) {
            let value = Sort::Count.value(text)?;
            *side = u32::try_from(value).map_err(|_| format!("'{text}' is too many threads"))?;
        }
    }
    spec.kernels = line.key("kernels").map_or(Ok(1), |text| Sort::Count.value(text))?.max(1);
    Ok(())
}

/// One to three sides, `8x4x1`.
fn sides(text: &str) -> Result<Vec<&str>> {
    let sides: Vec<_> = text.split('x').collect();
    if sides.len() > 3 { Err(format!("'{text}' has more than three sides")) } else { Ok(sides) }
}

fn launch(reader: &mut Reader<'_>, line: &Line<'_>, verb: &str) -> Result<Action> {
    let mut spec = spec(reader, line, verb)?;
    spec.stream = reader.stream(line.arguments[0])?;
    shape(line, &mut spec)?;
    call_of(spec)
}

fn graph_launch(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let mut spec = spec(reader, line, "graphlaunch")?;
    spec.object = Object::Graph(reader.graph(line.arguments[0])?);
    spec.stream = reader.stream(line.arguments[1])?;
    call_of(spec)
}

/// `cudaMemcpyKind` by the order of its names.
const KINDS: [&str; 5] = ["h2h", "h2d", "d2h", "d2d", "default"];

fn copy(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let way = line.arguments[0];
    let kind = KINDS.iter().position(|k| *k == way);
    let kind =
        kind.ok_or_else(|| format!("'{way}' is no direction; expected one of {}", KINDS.join(", ")))?;
    let is_async = line.arguments.len() == 3;
    let mut spec = spec(reader, line, &format!("{} {way}", if is_async { "copyasync" } else { "copy" }))?;
    spec.kind = kind as u64;
    spec.bytes = Sort::Size.span(line.arguments[1])?;
    spec.stream = line.arguments.get(2).map_or(Ok(0), |name| reader.stream(name))?;
    call_of(spec)
}

fn fill(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let mut spec = spec(reader, line, "fill")?;
    spec.bytes = Sort::Size.span(line.arguments[0])?;
    spec.stream = reader.stream(line.arguments[1])?;
    call_of(spec)
}

fn buffer(reader: &mut Reader<'_>, line: &Line<'_>, verb: &str) -> Result<Action> {
    let mut spec = spec(reader, line, verb)?;
    spec.object = Object::Buffer(place(&mut reader.script.buffers, line.arguments[0]));
    spec.bytes = line.arguments.get(1).map_or(Ok(Span::just(0)), |text| Sort::Size.span(text))?;
    call_of(spec)
}

fn record(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let mut spec = spec(reader, line, "record")?;
    spec.object = Object::Event(reader.event(line.arguments[0])?, 0);
    spec.stream = reader.stream(line.arguments[1])?;
    call_of(spec)
}

fn back(line: &Line<'_>) -> Result<usize> {
    line.key("back").map_or(Ok(0), |text| Sort::Count.value(text)).map(|n| n as usize)
}

fn wait(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let mut spec = spec(reader, line, "wait")?;
    spec.stream = reader.stream(line.arguments[0])?;
    spec.object = Object::Event(reader.event(line.arguments[1])?, back(line)?);
    call_of(spec)
}

fn make_stream(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let is_blocking = match line.arguments.get(1) {
        None => false,
        Some(&"blocking") => true,
        Some(other) => return Err(format!("'{other}' is no sort of stream; expected blocking or nothing")),
    };
    Ok(Action::MakeStream { stream: made(reader, line.arguments[0], |s| &mut s.streams)?, is_blocking })
}

fn query(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    call_of(question(reader, line)?)
}

fn poll(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let pause = line.key("pause").map_or(Ok(Span::just(0)), |text| Sort::Time.span(text))?;
    Ok(Action::Poll(Box::new(question(reader, line)?), pause))
}

fn question(reader: &Reader<'_>, line: &Line<'_>) -> Result<CallSpec> {
    let asked = object(reader, line.arguments[0], back(line)?)?;
    let verb = if matches!(asked, Object::Event(..)) { "query event" } else { "query stream" };
    let mut spec = spec(reader, line, verb)?;
    match asked {
        Object::Stream(stream) => spec.stream = stream,
        _ => spec.object = asked,
    }
    Ok(spec)
}

fn sync(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let name = line.arguments.get(1).copied();
    let what = line.arguments[0];
    let mut spec = spec(reader, line, &format!("sync {what}"))
        .map_err(|_| format!("'{what}' is nothing to wait for; expected stream, event or device"))?;
    match (what, name) {
        ("stream", Some(name)) => spec.stream = reader.stream(name)?,
        ("event", Some(name)) => spec.object = Object::Event(reader.event(name)?, back(line)?),
        ("device", None) => {}
        _ => return Err("expected sync stream NAME, sync event NAME or sync device".into()),
    }
    call_of(spec)
}

fn any(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let mut spec = by_name(reader, line, line.arguments[0])?;
    shape(line, &mut spec)?;
    spec.stream = line.key("stream").map_or(Ok(0), |name| reader.stream(name))?;
    spec.bytes = line.key("bytes").map_or(Ok(Span::just(0)), |text| Sort::Size.span(text))?;
    spec.rows = line.key("rows").map_or(Ok(1), |text| Sort::Count.value(text))?;
    spec.kind = line.key("kind").map_or(Ok(0), |text| Sort::Count.value(text))?;
    if let Some(text) = line.key("number") {
        spec.object = Object::Number(Sort::Count.value(text)?);
    }
    if let Some(name) = line.key("object") {
        spec.object = object(reader, name, 0)
            .or_else(|_| Ok::<_, String>(Object::Buffer(place(&mut reader.script.buffers, name))))?;
    }
    call_of(spec)
}

fn object(reader: &Reader<'_>, name: &str, back: usize) -> Result<Object> {
    let event = reader.event(name).map(|at| Object::Event(at, back));
    let stream = || reader.stream(name).map(Object::Stream);
    let graph = || reader.graph(name).map(Object::Graph);
    event.or_else(|_| stream()).or_else(|_| graph()).map_err(|_| format!("there is no object '{name}'"))
}

fn make_event(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let ring = line.key("ring").map_or(Ok(1), |text| Sort::Count.value(text))?.clamp(1, 1024) as usize;
    let name = line.arguments[0];
    if reader.stream(name).is_ok() || reader.graph(name).is_ok() {
        return Err(format!("'{name}' is the name of something else"));
    }
    match reader.event(name) {
        Ok(at) => Ok(Action::MakeEvent(at)),
        Err(_) => {
            reader.script.events.push((name.to_string(), ring));
            Ok(Action::MakeEvent(reader.script.events.len() - 1))
        }
    }
}

fn make_graph(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let stream = reader.stream(line.arguments[1])?;
    let nodes = line.key("nodes").map_or(Ok(1), |text| Sort::Count.value(text))?;
    let graph = made(reader, line.arguments[0], |s| &mut s.graphs)?;
    let mut node = spec(reader, line, "launch")?;
    shape(line, &mut node)?;
    (node.stream, node.kernels) = (stream, nodes);
    Ok(Action::MakeGraph { graph, node: Box::new(node) })
}

fn capture(reader: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let mut spec = spec(reader, line, "capture begin")?;
    spec.stream = reader.stream(line.arguments[0])?;
    call_of(spec)
}

fn end_capture(reader: &mut Reader<'_>, line: &Line<'_>, word: &'static str) -> Result<Action> {
    let stream = reader.stream(line.arguments[1])?;
    let graph = match word {
        "update" => reader.graph(line.arguments[0])?,
        _ => made(reader, line.arguments[0], |s| &mut s.graphs)?,
    };
    Ok(Action::EndCapture { graph, stream, word })
}

/// The place of an object that this line makes, or makes anew.
fn made(reader: &mut Reader<'_>, name: &str, names: fn(&mut Script) -> &mut Vec<String>) -> Result<usize> {
    if let Some(at) =
        names(&mut reader.script).iter().position(|n| n == name).filter(|at| *at != 0 || name != "default")
    {
        return Ok(at);
    }
    match object(reader, name, 0) {
        Ok(_) => Err(format!("'{name}' is the name of something else")),
        Err(_) => Ok(place(names(&mut reader.script), name)),
    }
}

fn signal(reader: &mut Reader<'_>, name: &str) -> usize {
    place(&mut reader.script.signals, name)
}

fn place(names: &mut Vec<String>, name: &str) -> usize {
    names.iter().position(|n| n == name).unwrap_or_else(|| {
        names.push(name.to_string());
        names.len() - 1
    })
}

fn fault(_: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let factor = |key: &str| line.key(key).map_or(Ok(1_000), |text| Sort::Factor.value(text));
    Ok(Action::Fault { name: line.arguments[0].to_string(), gpu: factor("gpu")?, host: factor("host")? })
}

fn spin(_: &mut Reader<'_>, line: &Line<'_>) -> Result<Action> {
    let threads = line.key("threads").map_or(Ok(1), |text| Sort::Count.value(text))?;
    if threads > 64 {
        return Err(format!("{threads} threads are too many; at most 64 compete"));
    }
    Ok(Action::Spin { threads, for_ns: Sort::Time.value(line.arguments[0])? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted() {
        assert!(WORDS.windows(2).all(|w| w[0].name < w[1].name));
    }
}
