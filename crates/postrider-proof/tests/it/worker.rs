//! A worker process, as its parent sees it.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::database::TIMEOUT;

/// The time limit of a whole run. Twenty thousand transactions take most of a minute on an idle machine.
const AT_WORK: Duration = Duration::from_secs(240);

pub(crate) struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Worker {
    /// Starts a worker, which is killed when the test ends.
    pub(crate) fn start(url: &str, arguments: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["--store", url])
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::unbounded_channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        // Read even if the test does not wait for a line: a full pipe would block the worker at an arbitrary point.
        tokio::spawn(async move {
            while let Ok(Some(line)) = stdout.next_line().await {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { stdin: child.stdin.take().unwrap(), child, lines }
    }

    /// Waits for a line that begins with `wanted`, and returns the rest of it.
    pub(crate) async fn wait_for_line(&mut self, wanted: &str) -> String {
        let found = async {
            while let Some(line) = self.lines.recv().await {
                if let Some(rest) = line.strip_prefix(wanted) {
                    return rest.trim().to_owned();
                }
            }
            panic!("the worker ended without printing {wanted:?}")
        };
        timeout(TIMEOUT, found).await.unwrap_or_else(|_| panic!("the worker does not print {wanted:?}"))
    }

    /// Writes a line to its stdin.
    pub(crate) async fn send_line(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        self.stdin.flush().await.unwrap();
    }

    /// Sends SIGKILL and waits for the end of the process.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(9), "it was alive until it was killed: {status}");
    }

    /// Sends SIGTERM.
    pub(crate) async fn terminate(&self) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    }

    /// Waits for the end. Returns the status and the lines not read before.
    pub(crate) async fn ended(mut self) -> (ExitStatus, Vec<String>) {
        let status = timeout(AT_WORK, self.child.wait()).await.expect("the worker ends").unwrap();
        let mut lines = Vec::new();
        while let Some(line) = self.lines.recv().await {
            lines.push(line);
        }
        (status, lines)
    }

    /// Waits for the end and asserts success.
    pub(crate) async fn finishes(self) -> Vec<String> {
        let (status, lines) = self.ended().await;
        assert!(status.success(), "{status}");
        lines
    }
}
