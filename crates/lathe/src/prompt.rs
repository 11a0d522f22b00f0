//! The prompt of print mode: the argument, standard input, or both.

use crate::arguments::SessionArguments;
use crate::error::{CliError, notice};
use base64::Engine as _;
use lathe_protocol::content::{Content, ContentBlock};
use lathe_settings::Environment;
use std::fs;
use std::io::{self, IsTerminal as _, Read as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long standard input may be silent before the user is told what is awaited.
const SILENCE: Duration = Duration::from_secs(3);

/// The prompt: the argument, the text on standard input, or both.
///
/// A pipe is read to its end, however late its writer is. Beside an argument, a pipe that only the programs hold
/// open which started this one is not waited for longer than [`SILENCE`]: they may have passed it on and never
/// write.
///
/// # Errors
/// When there is no prompt, or standard input can't be read.
pub(crate) fn read(argument: &str) -> Result<String, CliError> {
    let missing = |what: &str| {
        CliError::usage(what).hint("give the prompt as an argument (`lathe -p \"…\"`) or in a pipe")
    };
    let piped = if !io::stdin().is_terminal() {
        String::from_utf8_lossy(&standard_input(!argument.is_empty())?).into_owned()
    } else if argument.is_empty() {
        return Err(missing("there is no prompt"));
    } else {
        String::new()
    };
    let piped = piped.trim_end();
    let prompt = match (argument.is_empty(), piped.is_empty()) {
        (false, false) => format!("{argument}\n\n{piped}"),
        (false, true) => argument.to_owned(),
        (true, _) => piped.to_owned(),
    };
    if prompt.trim().is_empty() {
        return Err(missing("the prompt is empty"));
    }
    Ok(prompt)
}

/// The prompt with images before it.
///
/// # Errors
/// When a file can't be read or is no image.
pub(crate) fn with_images(
    prompt: String,
    images: &[PathBuf],
    environment: &Environment,
) -> Result<Content, CliError> {
    if images.is_empty() {
        return Ok(prompt.into());
    }
    let mut blocks = Vec::new();
    for image in images {
        let fitted = read_image(image, environment)?;
        let data = base64::engine::general_purpose::STANDARD.encode(&fitted.bytes);
        blocks.push(ContentBlock::image(fitted.media_type, data));
    }
    blocks.push(ContentBlock::text(prompt));
    Ok(blocks.into())
}

/// The prompt of the terminal, which mentions the images.
///
/// # Errors
/// When a file can't be read or is no image.
pub(crate) fn with_mentions(
    arguments: &SessionArguments,
    environment: &Environment,
) -> Result<Option<String>, CliError> {
    let mut prompt = arguments.prompt.clone();
    for image in &arguments.output.image {
        read_image(image, environment)?;
        let path = environment.resolve(&image.to_string_lossy());
        let text = prompt.get_or_insert_default();
        text.push_str(&format!(" @\"{}\"", path.display()));
    }
    Ok(prompt)
}

fn read_image(image: &Path, environment: &Environment) -> Result<lathe_images::Fitted, CliError> {
    let path = environment.resolve(&image.to_string_lossy());
    let shown = path.display();
    let bytes = fs::read(&path)
        .map_err(|error| CliError::usage(format!("--image: {shown} can't be read: {error}")))?;
    lathe_images::fit(&bytes).map_err(|error| CliError::usage(format!("--image: {shown}: {error}")))
}

/// Events of the reading thread.
enum Report {
    /// Something arrived, so that there is somebody who writes.
    Begun,
    Ended(io::Result<Vec<u8>>),
}

/// Everything on standard input. With `optional`, nothing if nobody seems to write to it.
fn standard_input(optional: bool) -> Result<Vec<u8>, CliError> {
    let unreadable =
        |error: io::Error| CliError::usage(format!("standard input can't be read: {error}"));
    let reports = start_reading().map_err(unreadable)?;
    let (mut told, mut begun) = (false, false);
    loop {
        match reports.recv_timeout(SILENCE) {
            Ok(Report::Begun) => begun = true,
            Ok(Report::Ended(bytes)) => return bytes.map_err(unreadable),
            Err(RecvTimeoutError::Disconnected) => return Ok(Vec::new()),
            Err(RecvTimeoutError::Timeout) if optional && !begun && !has_writer() => {
                notice(&format!(
                    "no data on standard input within {} s, so the prompt is sent without it (`< /dev/null` skips the wait)",
                    SILENCE.as_secs()
                ));
                return Ok(Vec::new());
            }
            // It is looked at again after each silence: a program that one of the ancestors is just starting has all their
            // descriptors for a moment, and a writer may end while an ancestor keeps the pipe open.
            Err(RecvTimeoutError::Timeout) if told => {}
            Err(RecvTimeoutError::Timeout) => {
                told = true;
                notice("waiting for the end of standard input (the pipe is still open)");
            }
        }
    }
}

fn start_reading() -> io::Result<Receiver<Report>> {
    let (sender, receiver) = channel();
    std::thread::Builder::new()
        .name("stdin".to_owned())
        .spawn(move || {
            let mut stdin = io::stdin().lock();
            let mut bytes = vec![0; 1];
            let result = match stdin.read(&mut bytes) {
                Ok(0) => Ok(Vec::new()),
                Ok(_) => {
                    let _ = sender.send(Report::Begun);
                    stdin.read_to_end(&mut bytes).map(|_| bytes)
                }
                Err(error) => Err(error),
            };
            // Nobody listens any more if the prompt was sent without it.
            let _ = sender.send(Report::Ended(result));
        })?;
    Ok(receiver)
}

/// Whether standard input is a pipe that a process holds open for writing which did not start this one: the
/// command before it in a pipeline, or one that was started for it.
fn has_writer() -> bool {
    let Ok(pipe) = fs::read_link("/proc/self/fd/0") else {
        return false;
    };
    let is_pipe = fs::metadata("/proc/self/fd/0").is_ok_and(|found| found.file_type().is_fifo());
    let ancestors = ancestors();
    let others = fs::read_dir("/proc").into_iter().flatten().flatten();
    is_pipe
        && others
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|process| !ancestors.contains(process))
            .any(|process| writes_to(process, &pipe))
}

fn writes_to(process: u32, pipe: &Path) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{process}/fd"));
    descriptors.into_iter().flatten().flatten().any(|entry| {
        let number = entry.file_name();
        fs::read_link(entry.path()).is_ok_and(|target| target == pipe)
            && is_for_writing(process, &number.to_string_lossy())
    })
}

fn is_for_writing(process: u32, descriptor: &str) -> bool {
    let information = fs::read_to_string(format!("/proc/{process}/fdinfo/{descriptor}"));
    let flags = information.unwrap_or_default();
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
    // The last digit, in base eight, says how it was opened: 1 for writing, 2 for both.
    flags
        .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
        .is_some_and(|flags| matches!(flags & 3, 1 | 2))
}

/// This process and those that it descends from.
fn ancestors() -> Vec<u32> {
    let mut found = vec![std::process::id()];
    while let Some(&last) = found.last()
        && let Ok(status) = fs::read_to_string(format!("/proc/{last}/stat"))
        // The name, in parentheses, may hold anything; the state and the parent stand after it.
        && let Some((_, rest)) = status.rsplit_once(')')
        && let Some(parent) = rest.split_whitespace().nth(1)
        && let Ok(parent) = parent.parse()
        && parent != 0
    {
        found.push(parent);
    }
    found
}
