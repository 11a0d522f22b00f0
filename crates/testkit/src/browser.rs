//! A real browser, for the page of `lathe serve`.

use crate::HANG_LIMIT;
use base64::Engine as _;
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn curl(method: &str, address: &str, body: &Value) -> Value {
    let output = Command::new("curl")
        .args([
            "-s",
            "--noproxy",
            "*",
            "-X",
            method,
            "-H",
            "content-type: application/json",
            "-d",
        ])
        .arg(body.to_string())
        .arg(address)
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

/// Chromium, driven by WebDriver. Ends with its owner.
#[derive(Debug)]
pub struct Browser {
    session: String,
    child: Child,
    _profile: tempfile::TempDir,
}

impl Browser {
    /// Starts one with a profile of its own.
    #[must_use]
    pub fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let profile = tempfile::tempdir().unwrap();
        let child = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("scripts/setup-tests installs chromium-driver");
        let base = format!("http://127.0.0.1:{port}");
        let until = Instant::now() + HANG_LIMIT;
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < until, "the driver does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        let arguments = [
            "--headless=new".to_owned(),
            "--no-sandbox".to_owned(),
            "--disable-gpu".to_owned(),
            "--disable-dev-shm-usage".to_owned(),
            "--window-size=1200,800".to_owned(),
            format!("--user-data-dir={}", profile.path().display()),
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:loggingPrefs": {"browser": "ALL"}, "goog:chromeOptions": {"args": arguments}}}});
        let started = curl("POST", &format!("{base}/session"), &wanted);
        let id = started["value"]["sessionId"]
            .as_str()
            .unwrap_or_else(|| panic!("{started}"));
        Self {
            session: format!("{base}/session/{id}"),
            child,
            _profile: profile,
        }
    }

    /// Opens an address.
    pub fn open(&self, address: &str) {
        let answer = curl(
            "POST",
            &format!("{}/url", self.session),
            &json!({"url": address}),
        );
        assert_eq!(answer["value"], Value::Null, "{answer}");
    }

    /// The result of a function body in the page.
    pub fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        curl("POST", &format!("{}/execute/sync", self.session), &body)["value"].clone()
    }

    /// Waits until an expression is true in the page.
    #[track_caller]
    pub fn wait(&self, condition: &str) {
        let until = Instant::now() + HANG_LIMIT;
        while self.run(&format!("return !!({condition})")) != json!(true) {
            assert!(
                Instant::now() < until,
                "never: {condition}\n{}\n{}",
                self.run("return document.body.innerText"),
                curl(
                    "POST",
                    &format!("{}/se/log", self.session),
                    &json!({"type": "browser"})
                )
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub fn wait_text(&self, text: &str) {
        self.wait(&format!(
            "document.body.innerText.includes({})",
            json!(text)
        ));
    }

    /// Keeps a picture, if `PAGE_PICTURES` names a folder.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("PAGE_PICTURES") else {
            return;
        };
        let output = Command::new("curl")
            .args([
                "-s",
                "--noproxy",
                "*",
                &format!("{}/screenshot", self.session),
            ])
            .output()
            .unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        let bytes =
            base64::engine::general_purpose::STANDARD.decode(answer["value"].as_str().unwrap());
        std::fs::write(std::path::Path::new(&folder).join(name), bytes.unwrap()).unwrap();
    }

    /// Changes the size of the window.
    pub fn resize(&self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height});
        curl("POST", &format!("{}/window/rect", self.session), &size);
    }

    /// Lets the system prefer a dark or a light scheme.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let command =
            json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}});
        curl(
            "POST",
            &format!("{}/goog/cdp/execute", self.session),
            &command,
        );
    }

    /// Submits a prompt on the page of `lathe serve`.
    pub fn type_prompt(&self, text: &str) {
        self.run(&format!(
            "const box = document.getElementById('prompt'); box.value = {}; document.getElementById('form').requestSubmit();",
            json!(text)
        ));
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = Command::new("curl")
            .args(["-s", "-X", "DELETE", &self.session])
            .output();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
