//! A worker process, as its parent sees it.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::database::PATIENCE;

/// How long a worker may be at work: twenty thousand transactions take most of a minute where nothing else runs.
const AT_WORK: Duration = Duration::from_secs(240);

pub(crate) struct Worker {
    child: Child,
    stdin: ChildStdin,
    lines: mpsc::UnboundedReceiver<String>,
}

impl Worker {
    /// Starts one; it goes when the test does.
    pub(crate) fn start(url: &str, arguments: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_worker"))
            .args(["--store", url])
            .args(arguments.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (tell, lines) = mpsc::unbounded_channel();
        let mut stdout = BufReader::new(child.stdout.take().unwrap()).lines();
        // Read whether the test listens or not: a full pipe would stop the worker in a place that nobody chose.
        tokio::spawn(async move {
            while let Ok(Some(line)) = stdout.next_line().await {
                if tell.send(line).is_err() {
                    break;
                }
            }
        });
        Self { stdin: child.stdin.take().unwrap(), child, lines }
    }

    /// Waits for a line that begins with `wanted`, and returns the rest of it.
    pub(crate) async fn says(&mut self, wanted: &str) -> String {
        let found = async {
            while let Some(line) = self.lines.recv().await {
                if let Some(rest) = line.strip_prefix(wanted) {
                    return rest.trim().to_owned();
                }
            }
            panic!("the worker ended without saying {wanted:?}")
        };
        timeout(PATIENCE, found).await.unwrap_or_else(|_| panic!("the worker does not say {wanted:?}"))
    }

    /// Sends it a line.
    pub(crate) async fn tell(&mut self, line: &str) {
        self.stdin.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        self.stdin.flush().await.unwrap();
    }

    /// SIGKILL, now: nothing of it runs any more when this returns.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.unwrap();
        let status = self.child.wait().await.unwrap();
        assert_eq!(status.signal(), Some(9), "it was alive until it was killed: {status}");
    }

    /// SIGTERM.
    pub(crate) async fn terminate(&self) {
        let pid = self.child.id().unwrap().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().await.unwrap().success());
    }

    /// Waits for its end. What it said until then that nobody has read comes with it.
    pub(crate) async fn ended(mut self) -> (ExitStatus, Vec<String>) {
        let status = timeout(AT_WORK, self.child.wait()).await.expect("the worker ends").unwrap();
        let mut said = Vec::new();
        while let Some(line) = self.lines.recv().await {
            said.push(line);
        }
        (status, said)
    }

    /// Waits for an end without complaint.
    pub(crate) async fn finishes(self) -> Vec<String> {
        let (status, said) = self.ended().await;
        assert!(status.success(), "{status}");
        said
    }
}
