//! The words that make one action each: how many arguments, which keys, and the action.

use super::scope::Scope;
use super::verbs::symbol;
use super::{CallSpec, Naming, Object, ScriptAction};
use crate::functions::by_symbol;
use crate::model::call::StubFunction;
use crate::named;
use crate::text::{Result, ScriptLine, Unit, ValueRange, Word};

type Build = fn(&mut Scope, &ScriptLine<'_>) -> Result<ScriptAction>;
type Keys = &'static [&'static [&'static str]];

/// Keys of every call.
const CALL: &[&str] = &["blocks", "depth", "gpu", "host", "inner", "result"];
const SHAPE: &[&str] = &["block", "grid", "kernel", "kernels"];
const ANY: &[&str] = &["bytes", "kind", "number", "object", "rows", "stream"];

const fn word(name: &'static str, least: usize, most: usize, keys: Keys, build: Build) -> Word<Build> {
    Word { name, arguments: (least, most), keys, build }
}

/// Sorted by name.
pub(super) static WORDS: &[Word<Build>] = &[
    word("await", 1, 1, &[], |s, l| Ok(ScriptAction::Await(s.signal(l.arguments[0])))),
    word("burn", 1, 1, &[], |_, l| Ok(ScriptAction::Burn(Unit::Time.span(l.arguments[0])?))),
    word("call", 1, 1, &[CALL, SHAPE, ANY], any),
    word("capture", 1, 1, &[CALL], |s, l| on_stream(s, l, "capture begin")),
    word("copy", 2, 3, &[CALL], copy),
    word("destroy", 1, 1, &[], |s, l| Ok(ScriptAction::Destroy(s.object(l.arguments[0], 0)?))),
    word("event", 1, 1, &[&["ring"]], make_event),
    word("exec", 1, 1, &[], |_, l| Ok(ScriptAction::Exec(l.arguments[0].into()))),
    word("fault", 1, 1, &[&["gpu", "host"]], fault),
    word("fill", 2, 2, &[CALL], fill),
    word("free", 1, 1, &[CALL], |s, l| buffer(s, l, "free")),
    word("function", 1, 2, &[], name_function),
    word("graph", 2, 2, &[&["block", "grid", "nodes"]], make_graph),
    word("graphlaunch", 2, 2, &[CALL], graph_launch),
    word("hostalloc", 2, 2, &[CALL], |s, l| buffer(s, l, "hostalloc")),
    word("hostfree", 1, 1, &[CALL], |s, l| buffer(s, l, "hostfree")),
    word("instantiate", 2, 2, &[], |s, l| end_capture(s, l, "instantiate")),
    word("join", 1, 1, &[], |s, l| Ok(ScriptAction::Join(s.thread(l.arguments[0])?))),
    word("launch", 1, 1, &[CALL, SHAPE], |s, l| on_stream(s, l, "launch")),
    word("launchex", 1, 1, &[CALL, SHAPE], |s, l| on_stream(s, l, "launchex")),
    word("malloc", 2, 2, &[CALL], |s, l| buffer(s, l, "malloc")),
    word("poll", 1, 1, &[CALL, &["back", "pause"]], poll),
    word("query", 1, 1, &[CALL, &["back"]], |s, l| call_of(query(s, l)?)),
    word("record", 2, 2, &[CALL], record),
    word("signal", 1, 1, &[], |s, l| Ok(ScriptAction::Signal(s.signal(l.arguments[0])))),
    word("sleep", 1, 1, &[], |_, l| Ok(ScriptAction::Sleep(Unit::Time.span(l.arguments[0])?))),
    word("spawn", 1, 1, &[], |s, l| Ok(ScriptAction::Spawn(s.thread(l.arguments[0])?))),
    word("spin", 1, 1, &[&["threads"]], spin),
    word("stream", 1, 2, &[], make_stream),
    word("sync", 1, 2, &[CALL, &["back"]], sync),
    word("update", 2, 2, &[], |s, l| end_capture(s, l, "update")),
    word("wait", 2, 2, &[CALL, &["back"]], wait),
];

/// Returns a call of the function that `verb` means, with the keys of every call.
fn spec(scope: &Scope, line: &ScriptLine<'_>, verb: &str) -> Result<CallSpec> {
    let api = scope.script.api;
    let symbol =
        symbol(api, verb).ok_or_else(|| format!("{api:?} has no function for '{verb}'").to_lowercase())?;
    by_name(scope, line, symbol)
}

fn by_name(scope: &Scope, line: &ScriptLine<'_>, symbol: &str) -> Result<CallSpec> {
    let (index, function) = function(scope, symbol)?;
    let mut spec = CallSpec::new(index, function);
    spec.kernel = line.number as u64;
    spec.gpu = line.key("gpu").map(|text| Unit::Time.span(text)).transpose()?;
    spec.host = line.span("host", Unit::Time, 0)?;
    spec.blocks = line.key("blocks").map(|text| Unit::Time.value(text)).transpose()?;
    spec.result = line.key("result").map(|text| Unit::Count.value(text)).transpose()?;
    let depth = line.value("depth", Unit::Count, 1)?.min(64) as u32;
    let inner = line.key("inner").map(|symbol| self::function(scope, symbol)).transpose()?;
    spec.inner = inner.map(|(index, _)| (index, depth));
    shape(line, &mut spec)?;
    spec.named = line.key("kernel").map(|name| scope.function(name)).transpose()?;
    Ok(spec)
}

fn function(scope: &Scope, symbol: &str) -> Result<(usize, StubFunction)> {
    let found = by_symbol(symbol).ok_or_else(|| format!("no stub library exports '{symbol}'"))?;
    let (api, library) = (scope.script.api, found.1.probe.library);
    match api.libraries().contains(&library) {
        true => Ok(found),
        false => Err(format!("'{symbol}' is in {library:?}, which api {api:?} does not load").to_lowercase()),
    }
}

fn call_of(spec: CallSpec) -> Result<ScriptAction> {
    Ok(ScriptAction::Call(Box::new(spec)))
}

fn shape(line: &ScriptLine<'_>, spec: &mut CallSpec) -> Result<()> {
    for (side, text) in spec.grid.iter_mut().zip(sides(line, "grid")?) {
        *side = Unit::Count.span(text)?;
    }
    for (side, text) in spec.block.iter_mut().zip(sides(line, "block")?) {
        let value = Unit::Count.value(text)?;
        *side = u32::try_from(value).map_err(|_| format!("'{text}' is too many threads"))?;
    }
    spec.kernels = line.value("kernels", Unit::Count, 1)?.max(1);
    Ok(())
}

/// Splits one to three sides such as `8x4x1`.
fn sides<'a>(line: &ScriptLine<'a>, key: &str) -> Result<Vec<&'a str>> {
    let sides: Vec<_> = line.key(key).into_iter().flat_map(|text| text.split('x')).collect();
    if sides.len() > 3 {
        Err(format!("{key} '{}' has more than three sides", sides.join("x")))
    } else {
        Ok(sides)
    }
}

/// Returns a call on the stream that the first argument names.
fn on_stream(scope: &mut Scope, line: &ScriptLine<'_>, verb: &str) -> Result<ScriptAction> {
    let mut spec = spec(scope, line, verb)?;
    spec.stream = scope.stream(line.arguments[0])?;
    call_of(spec)
}

fn graph_launch(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let mut spec = spec(scope, line, "graphlaunch")?;
    spec.object = Object::Graph(scope.graph(line.arguments[0])?);
    spec.stream = scope.stream(line.arguments[1])?;
    call_of(spec)
}

/// The names of `cudaMemcpyKind`'s values, in their order.
const KINDS: [&str; 5] = ["h2h", "h2d", "d2h", "d2d", "default"];

fn copy(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let direction = line.arguments[0];
    let kind = KINDS.iter().position(|k| *k == direction);
    let kind =
        kind.ok_or_else(|| format!("unknown direction '{direction}'; expected one of {}", KINDS.join(", ")))?;
    let verb = if line.arguments.len() == 3 { "copyasync" } else { "copy" };
    let mut spec = spec(scope, line, &format!("{verb} {direction}"))?;
    spec.kind = kind as u64;
    spec.bytes = Unit::Size.span(line.arguments[1])?;
    spec.stream = line.arguments.get(2).map_or(Ok(0), |name| scope.stream(name))?;
    call_of(spec)
}

fn fill(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let mut spec = spec(scope, line, "fill")?;
    spec.bytes = Unit::Size.span(line.arguments[0])?;
    spec.stream = scope.stream(line.arguments[1])?;
    call_of(spec)
}

fn buffer(scope: &mut Scope, line: &ScriptLine<'_>, verb: &str) -> Result<ScriptAction> {
    let mut spec = spec(scope, line, verb)?;
    spec.object = Object::Buffer(scope.buffer(line.arguments[0]));
    spec.bytes = line.arguments.get(1).map_or(Ok(ValueRange::just(0)), |text| Unit::Size.span(text))?;
    call_of(spec)
}

fn record(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let mut spec = spec(scope, line, "record")?;
    spec.object = Object::Event(scope.event(line.arguments[0])?, 0);
    spec.stream = scope.stream(line.arguments[1])?;
    call_of(spec)
}

fn back(line: &ScriptLine<'_>) -> Result<usize> {
    line.value("back", Unit::Count, 0).map(|n| n as usize)
}

fn wait(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let mut spec = spec(scope, line, "wait")?;
    spec.stream = scope.stream(line.arguments[0])?;
    spec.object = Object::Event(scope.event(line.arguments[1])?, back(line)?);
    call_of(spec)
}

fn make_stream(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let is_blocking = match line.arguments.get(1) {
        None => false,
        Some(&"blocking") => true,
        Some(other) => return Err(format!("unknown argument '{other}' of stream; expected blocking")),
    };
    Ok(ScriptAction::MakeStream { stream: scope.made(line.arguments[0], |s| &mut s.streams)?, is_blocking })
}

fn poll(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    Ok(ScriptAction::Poll(Box::new(query(scope, line)?), line.span("pause", Unit::Time, 0)?))
}

fn query(scope: &Scope, line: &ScriptLine<'_>) -> Result<CallSpec> {
    let object = scope.object(line.arguments[0], back(line)?)?;
    let verb = if matches!(object, Object::Event(..)) { "query event" } else { "query stream" };
    let mut spec = spec(scope, line, verb)?;
    match object {
        Object::Stream(stream) => spec.stream = stream,
        _ => spec.object = object,
    }
    Ok(spec)
}

fn sync(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let name = line.arguments.get(1).copied();
    let target = line.arguments[0];
    let mut spec = spec(scope, line, &format!("sync {target}"))
        .map_err(|_| format!("cannot wait for '{target}'; expected stream, event or device"))?;
    match (target, name) {
        ("stream", Some(name)) => spec.stream = scope.stream(name)?,
        ("event", Some(name)) => spec.object = Object::Event(scope.event(name)?, back(line)?),
        ("device", None) => {}
        _ => return Err("expected sync stream NAME, sync event NAME or sync device".into()),
    }
    call_of(spec)
}

fn any(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let mut spec = by_name(scope, line, line.arguments[0])?;
    spec.stream = line.key("stream").map_or(Ok(0), |name| scope.stream(name))?;
    spec.bytes = line.span("bytes", Unit::Size, 0)?;
    spec.rows = line.value("rows", Unit::Count, 1)?;
    spec.kind = line.value("kind", Unit::Count, 0)?;
    if let Some(text) = line.key("number") {
        spec.object = Object::Number(Unit::Count.value(text)?);
    }
    if let Some(name) = line.key("object") {
        spec.object = scope.object(name, 0).unwrap_or_else(|_| Object::Buffer(scope.buffer(name)));
    }
    call_of(spec)
}

fn make_event(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let ring = line.value("ring", Unit::Count, 1)?.clamp(1, 1024) as usize;
    Ok(ScriptAction::MakeEvent(scope.made_event(line.arguments[0], ring)?))
}

fn name_function(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let name = line.arguments[0];
    let naming = match line.arguments.get(1) {
        None => Naming::Register,
        Some(&"lookup") => Naming::Lookup,
        Some(&"symbol") if named::address_of(name).is_some() => Naming::Symbol,
        Some(&"symbol") => return Err(format!("the player has no function '{name}'")),
        Some(other) => {
            return Err(format!("unknown argument '{other}' of function; expected lookup or symbol"));
        }
    };
    Ok(ScriptAction::NameFunction { function: scope.made(name, |s| &mut s.functions)?, naming })
}

fn make_graph(scope: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let stream = scope.stream(line.arguments[1])?;
    let nodes = line.value("nodes", Unit::Count, 1)?;
    let graph = scope.made(line.arguments[0], |s| &mut s.graphs)?;
    let mut node = spec(scope, line, "launch")?;
    (node.stream, node.kernels) = (stream, nodes);
    Ok(ScriptAction::MakeGraph { graph, node: Box::new(node) })
}

fn end_capture(scope: &mut Scope, line: &ScriptLine<'_>, word: &'static str) -> Result<ScriptAction> {
    let stream = scope.stream(line.arguments[1])?;
    let graph = match word {
        "update" => scope.graph(line.arguments[0])?,
        _ => scope.made(line.arguments[0], |s| &mut s.graphs)?,
    };
    Ok(ScriptAction::EndCapture { graph, stream, word })
}

fn fault(_: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let factor = |key: &str| line.value(key, Unit::Factor, 1_000);
    Ok(ScriptAction::Fault {
        name: line.arguments[0].to_string(),
        gpu: factor("gpu")?,
        host: factor("host")?,
    })
}

fn spin(_: &mut Scope, line: &ScriptLine<'_>) -> Result<ScriptAction> {
    let threads = line.value("threads", Unit::Count, 1)?;
    if threads > 64 {
        return Err(format!("{threads} threads are too many; expected at most 64"));
    }
    Ok(ScriptAction::Spin { threads, for_ns: Unit::Time.value(line.arguments[0])? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_sorted() {
        assert!(WORDS.windows(2).all(|w| w[0].name < w[1].name));
    }
}
