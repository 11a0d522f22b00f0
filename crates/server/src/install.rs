//! The service files that start `lathe serve` with the user's session: a systemd unit, or a launchd agent.

use std::path::{Path, PathBuf};

/// A service file: where it goes, its text, and the commands that switch it on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// The file.
    pub path: PathBuf,
    /// Its content.
    pub text: String,
    /// The commands.
    pub commands: Vec<String>,
}

/// The service of this system; `arguments` are those of `lathe serve`.
#[must_use]
pub fn service(home: &Path, config_home: &Path, program: &Path, arguments: &[String]) -> Service {
    if cfg!(target_os = "macos") {
        launchd(home, config_home, program, arguments)
    } else {
        systemd(home, config_home, program, arguments)
    }
}

/// A systemd user unit.
#[must_use]
pub fn systemd(home: &Path, config_home: &Path, program: &Path, arguments: &[String]) -> Service {
    // Quoted as systemd reads it; a percent sign begins a specifier.
    let quoted = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"");
        format!("\"{}\"", text.replace('%', "%%"))
    };
    let config = quoted(&format!("LATHE_CONFIG_DIR={}", config_home.display()));
    let words: String = arguments
        .iter()
        .map(|word| format!(" {}", quoted(word)))
        .collect();
    let text = format!(
        "[Unit]\nDescription=Lathe: the door to sessions\n\n[Service]\nExecStart={} serve{words}\n\
         Environment={}\nRestart=on-failure\nUMask=0077\nNoNewPrivileges=true\n\n[Install]\nWantedBy=default.target\n",
        quoted(&program.to_string_lossy()),
        config,
    );
    Service {
        path: home.join(".config/systemd/user/lathe.service"),
        text,
        commands: vec![
            "systemctl --user daemon-reload".to_owned(),
            "systemctl --user enable --now lathe.service".to_owned(),
        ],
    }
}

/// A launchd agent.
#[must_use]
pub fn launchd(home: &Path, config_home: &Path, program: &Path, arguments: &[String]) -> Service {
    let escaped = |text: &str| {
        text.replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;")
    };
    let word = |text: &str| format!("    <string>{}</string>\n", escaped(text));
    let program = program.to_string_lossy();
    let words: String = [program.as_ref(), "serve"]
        .into_iter()
        .chain(arguments.iter().map(String::as_str))
        .map(word)
        .collect();
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC \"-//Apple//DTD PLIST 1.0//EN\" \
         \"http://www.apple.com/DTDs/PropertyList-1.0.dtd\">\n<plist version=\"1.0\">\n<dict>\n  <key>Label</key>\n  \
         <string>dev.lathe.serve</string>\n  <key>ProgramArguments</key>\n  <array>\n{words}  </array>\n  \
         <key>EnvironmentVariables</key>\n  <dict>\n    <key>LATHE_CONFIG_DIR</key>\n    <string>{}</string>\n  </dict>\n  \
         <key>RunAtLoad</key>\n  <true/>\n  <key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>\n  \
         </dict>\n</dict>\n</plist>\n",
        escaped(&config_home.to_string_lossy()),
    );
    let path = home.join("Library/LaunchAgents/dev.lathe.serve.plist");
    let load = format!("launchctl load -w {}", path.display());
    Service {
        path,
        text,
        commands: vec![load],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_special_characters_stay_names() {
        let (home, config) = (Path::new("/home/a"), Path::new("/home/a/100% \"mine\""));
        let arguments = ["--port", "4077"].map(str::to_owned);
        let unit = systemd(home, config, Path::new("/opt/my lathe"), &arguments);
        assert!(
            unit.text
                .contains("ExecStart=\"/opt/my lathe\" serve \"--port\" \"4077\"\n"),
            "{}",
            unit.text
        );
        assert!(
            unit.text
                .contains(r#"Environment="LATHE_CONFIG_DIR=/home/a/100%% \"mine\"""#),
            "{}",
            unit.text
        );
        let agent = launchd(
            home,
            Path::new("/a & <b>"),
            Path::new("/opt/lathe"),
            &arguments,
        );
        assert!(
            agent.text.contains("<string>/a &amp; &lt;b&gt;</string>"),
            "{}",
            agent.text
        );
        assert!(
            agent
                .text
                .contains("<string>--port</string>\n    <string>4077</string>"),
            "{}",
            agent.text
        );
    }
}
