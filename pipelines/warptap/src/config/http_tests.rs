//! Requests to a server on loopback with scripted answers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;

use super::get;

/// Starts a server that answers each connection with the next text; returns its port and the request lines.
fn serve(answers: Vec<String>) -> (u16, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = std::thread::spawn(move || {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            asked.extend(lines.next());
            lines.find(String::is_empty);
            // The client may have closed the connection.
            let _ = stream.write_all(answer.as_bytes());
        }
        asked
    });
    (port, serving)
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Checks the result of a server's answers, with a limit of ten bytes.
#[track_caller]
fn check(answers: &[String], want: Result<&str, &str>) {
    let (port, serving) = serve(answers.to_vec());
    let got = get(&format!("http://127.0.0.1:{port}/a?b=c"), 10);
    match (&got, want) {
        (Ok(body), Ok(want)) => assert_eq!(body, want.as_bytes()),
        (Err(error), Err(want)) => assert!(error.contains(want), "{error}"),
        _ => panic!("{got:?}, expected {want:?}"),
    }
    assert_eq!(serving.join().unwrap()[0], "GET /a?b=c HTTP/1.1");
}

#[test]
fn the_body_of_a_success_is_returned() {
    check(&[ok("a: 1")], Ok("a: 1"));
    check(&[ok("")], Ok(""));
    check(&[ok("0123456789")], Ok("0123456789"));
    check(&["HTTP/1.1 200 OK\r\n\r\nuntil end".to_owned()], Ok("until end"));
}

#[test]
fn unusable_answers_are_errors() {
    check(&["HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n".to_owned()], Err("status code: 404"));
    check(&[ok("01234567890")], Err("longer than 10 bytes"));
    check(&["HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhalf".to_owned()], Err("broke off"));
    check(&["no http at all\r\n\r\n".to_owned()], Err("no answer"));
}

#[test]
fn redirects_are_followed_up_to_a_limit() {
    let to = |place: &str| format!("HTTP/1.1 302 Found\r\nlocation: {place}\r\ncontent-length: 0\r\n\r\n");
    check(&[to("/elsewhere"), ok("a: 1")], Ok("a: 1"));
    let (port, _) = serve(vec![ok("b: 1")]);
    check(&[to(&format!("http://localhost:{port}/"))], Ok("b: 1"));
    check(&vec![to("/a?b=c"); 11], Err("stopped after 10 redirects"));
    check(&["HTTP/1.1 302 Found\r\n\r\n".to_owned()], Err("without a location"));
    check(&[to("ftp://localhost/")], Err("no address of http or https"));
}

#[test]
fn missing_server_is_an_error() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for (uri, want) in [
        (format!("http://127.0.0.1:{port}/"), "cannot connect"),
        (format!("https://127.0.0.1:{port}/"), "cannot connect"),
        ("http:nothing".to_owned(), "no address"),
        ("http://".to_owned(), "no address"),
    ] {
        let error = get(&uri, 10).unwrap_err();
        assert!(error.contains(want), "{uri}: {error}");
    }
}

#[test]
fn unknown_authorities_are_not_trusted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"not TLS at all"));
    let error = get(&format!("https://127.0.0.1:{port}/"), 10).unwrap_err();
    assert!(error.contains("TLS") || error.contains("authorities"), "{error}");
}
