//! Runs the programs in `examples/` as processes: two of them are about processes, which a call inside this one
//! cannot replace.
//!
//! Cargo builds the examples together with the tests, unless it gets a list of targets: `cargo test --test it` uses
//! the existing ones, which are outdated after a change.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

/// The executable of an example.
fn example(name: &str) -> Command {
    let test = std::env::current_exe().expect("a path");
    // target/debug/deps/it-0123456789abcdef
    let profile = test.parent().and_then(|deps| deps.parent()).expect("a folder of the profile");
    let file = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    assert!(file.exists(), "{} is not there: run `cargo build --locked --workspace --examples`", file.display());
    Command::new(file)
}

/// Its output, if it succeeded.
fn story(output: &Output) -> String {
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{stdout}\n{stderr}", output.status);
    stdout.into_owned()
}

fn run(mut example: Command) -> String {
    story(&example.output().expect("it runs"))
}

/// A.1, A.3, A.6, D.10: from the payment to the mail, each effect once.
#[cfg(feature = "sqlite")]
#[test]
fn shop_has_each_effect_once() {
    let story = run(example("shop"));
    let lines: Vec<_> =
        story.lines().map(str::trim).filter(|line| !line.starts_with("Idempotency-Key: mail:")).collect();
    let expected = [
        "shop:   order 7 is PAID, and order:7:paid with it",
        "shop:   the callback came again: order:7:paid was written before",
        "coupon: SPRING is committed for order 7, 9900 cents",
        "mail:   \"Order 7: your coupon SPRING was used.\"",
        "because of order:7:paid",
        "shop:   order.paid was delivered twice, and 1 coupon is used",
    ];
    assert_eq!(lines, expected);
    assert_eq!(story.lines().count(), lines.len() + 1, "one mail, one key: {story}");
}

/// B.2: two processes share the work and no effect.
#[cfg(feature = "postgres")]
#[test]
fn two_relays_on_postgres_consume_each_event_once() {
    let story = run(example("two_relays"));
    for relay in ["relay one committed", "relay two committed", "each order has one coupon"] {
        assert!(story.contains(relay), "{story}");
    }
}

/// G.4: the program stops itself with SIGTERM.
#[cfg(all(unix, feature = "sqlite"))]
#[test]
fn graceful_shutdown_on_sigterm() {
    let mut demo = example("graceful_shutdown");
    demo.arg("--demo");
    let story = run(demo);
    assert!(story.contains("SIGTERM: finishing what was begun"), "{story}");
    assert!(story.contains("0 of them tried"), "{story}");
}

/// G.4: a person stops it with Ctrl-C.
#[cfg(all(unix, feature = "sqlite"))]
#[test]
fn graceful_shutdown_obeys_ctrl_c() {
    let mut child = example("graceful_shutdown").stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines().map(|line| line.expect("a line"));
    lines.find(|line| line.starts_with("mail for order")).expect("one is begun");
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill runs");
    assert!(kill.success());
    let rest: Vec<_> = lines.collect();
    assert!(child.wait().expect("it ends").success(), "{rest:#?}");
    assert!(rest.iter().any(|line| line == "Ctrl-C: finishing what was begun"), "{rest:#?}");
    assert!(rest.iter().any(|line| line.contains("0 of them tried")), "{rest:#?}");
}
