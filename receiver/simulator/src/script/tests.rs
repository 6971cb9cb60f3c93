//! Parsed scripts, and the errors of wrong ones.

use super::parse::parse;
use super::*;

fn problem(text: &str) -> String {
    parse(text).err().map(|e| e.to_string()).unwrap_or_default()
}

#[test]
fn script_lines_become_calls_of_the_api() {
    let script = parse(
        "api hip\nstream main # a comment\nevent done ring=2\nthread t\n repeat 3\n  launch main grid=8x4 block=64\n  \
         copy d2h 4KiB\n  sync event done back=1\n end\nend\n",
    )
    .unwrap();
    assert_eq!((script.api, script.streams.len(), script.setup.len()), (ScriptApi::Hip, 2, 2));
    let ScriptAction::Repeat(Times::Count(3), body) = &script.threads[0].body[0].action else { panic!() };
    let symbols: Vec<_> = body
        .iter()
        .map(|s| match &s.action {
            ScriptAction::Call(call) => call.function.symbol(),
            _ => "",
        })
        .collect();
    assert_eq!(symbols, ["hipLaunchKernel", "hipMemcpy", "hipEventSynchronize"]);
    let ScriptAction::Call(launch) = &body[0].action else { panic!() };
    assert_eq!((launch.grid.map(|s| s.low), launch.block, launch.stream), ([8, 4, 1], [64, 1, 1], 1));
    let ScriptAction::Call(sync) = &body[2].action else { panic!() };
    assert_eq!(sync.object, Object::Event(0, 1));
}

#[test]
fn errors_name_the_line_and_the_expected_words() {
    let check = |text: &str, parts: &[&str]| {
        let problem = problem(text);
        assert!(
            parts.iter().all(|part| problem.contains(part)),
            "{text:?}: {problem:?} lacks one of {parts:?}"
        );
    };
    check("stream a\nlanch a", &["line 2", "'lanch'", "launch"]);
    check("stream a\nlaunch a grd=3", &["line 2", "'grd'", "grid"]);
    check("launch b", &["line 1", "'b'", "default"]);
    check("stream a\nlaunch a gpu=3", &["'3'", "300us"]);
    check("stream a\nlaunch a gpu=", &["lacks its value"]);
    check("stream a\nlaunch a gpu=1us gpu=2us", &["given twice"]);
    check("stream a\nlaunch a gpu=1us a", &["follows a key"]);
    check("thread t\nrepeat 3\nend", &["open", "end"]);
    check("api rocm", &["'rocm'", "hip"]);
    check("stream a\napi hip", &["line 2", "first line"]);
    check("copy up 3KiB", &["'up'", "h2d"]);
    check("copy h2d", &["1 arguments", "2 to 3"]);
    check("sync everything", &["'everything'", "device"]);
    check("call cudaFly", &["'cudaFly'"]);
    check("api hip\ncall cudaMalloc", &["cudart", "hip"]);
    check("stream a\ninclude this", &["line 2", "'this'"]);
    check("use this", &["'this'"]);
    check("spawn this", &["'this'"]);
    check("event a\nstream a", &["something else"]);
    check("", &["does nothing"]);
    check("end", &["'end'"]);
    check(&"repeat 2\n".repeat(40), &["nested"]);
}

#[test]
fn period_and_range_select_turns() {
    let turns = |when: When| (0..10).filter(|t| when.holds(*t)).collect::<Vec<_>>();
    let all = When::default();
    assert_eq!(turns(all).len(), 10);
    assert_eq!(turns(When { every: 4, after: 1, ..all }), [1, 5, 9]);
    assert_eq!(turns(When { unless: 4, after: 1, ..all }).len(), 7);
    assert_eq!(turns(When { from: 3, until: 5, ..all }), [3, 4]);
    assert_eq!(turns(When { every: 2, from: 5, ..all }), [6, 8]);
}
