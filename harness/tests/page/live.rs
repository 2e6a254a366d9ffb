use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use hookproof::run::PageServer;

use super::Page;

fn get_page(address: std::net::SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).expect("it listens");
    stream.write_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("written");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The program serves the first answer; the second one differs, and there is no third.
#[test]
fn the_page_of_a_run_follows_it_and_says_when_nothing_comes_any_more() {
    let server = PageServer::open("127.0.0.1:0".parse().expect("an address")).expect("a server");
    let first = get_page(server.address());
    let Some(page) = Page::of("the_page_of_a_run_follows_it", String::new()) else { return };
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let second = first.replace("no run has begun yet", "Running, 9 s: so far");
    assert!(first.len() == second.len() && first != second, "{first}");
    let answering = std::thread::spawn(move || {
        for answer in [first, second] {
            let (mut stream, _) = listener.accept().expect("a browser");
            let mut head = [0; 4_096];
            let _asked = stream.read(&mut head).expect("a request");
            stream.write_all(answer.as_bytes()).expect("written");
        }
    });
    let arguments =
        ["--virtual-time-budget=20000", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"];
    let shown = page.run(&arguments, &["--dump-dom", &format!("http://{address}/")]);
    let dom = String::from_utf8_lossy(&shown.stdout);
    assert!(dom.contains(">Over; last seen, 9 s: so far<") && !dom.contains("no run has begun yet"), "{dom}");
    assert!(
        dom.contains("this page is no longer updated. Its final page: in the folder that --out names"),
        "{dom}"
    );
    answering.join().expect("it answered");
}
