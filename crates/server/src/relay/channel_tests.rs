//! Everything that a relay could do to frames.

use super::super::keys::{Begun, Identity, answer};
use super::*;

fn pair() -> (Channel, Channel) {
    let identity = Identity::read(&Identity::generate().unwrap()).unwrap();
    let begun = Begun::new("pair:1", "phone").unwrap();
    let (answered, host) = answer(&identity, "room", "d1", &begun.hi, "secret").unwrap();
    let key = identity.public();
    let device = begun
        .finish(&key, "room", "d1", &answered, "secret")
        .unwrap();
    (
        Channel::new(host, Side::Host, "room", "host", "d1"),
        Channel::new(device, Side::Device, "room", "d1", "host"),
    )
}

fn read(frame: &str) -> Envelope {
    serde_json::from_str(frame).unwrap()
}

fn deliver(to: &mut Channel, frames: &[String]) -> Vec<Received> {
    let frames = frames.iter();
    frames
        .map(|frame| to.receive(&read(frame)).unwrap())
        .collect()
}

fn message(text: &str) -> Received {
    Received::Message(text.as_bytes().to_vec())
}

#[test]
fn messages_arrive_whole_and_the_relay_sees_none_of_them() {
    let (mut host, mut device) = pair();
    let long = "planted-secret ".repeat(20_000);
    let frames = host.send(long.as_bytes()).unwrap();
    assert!(frames.len() > 4);
    for frame in &frames {
        assert!(
            frame.len() <= super::super::envelope::LARGEST,
            "{}",
            frame.len()
        );
        assert!(!frame.contains("planted"));
        let bytes = STANDARD.decode(read(frame).ct).unwrap();
        assert!(memchr_in(&bytes, b"planted").is_none());
    }
    let mut received = deliver(&mut device, &frames);
    assert_eq!(received.pop(), Some(message(&long)));
    assert!(received.iter().all(|part| *part == Received::Nothing));
    let back = device.send(b"thanks").unwrap();
    assert_eq!(deliver(&mut host, &back), [message("thanks")]);
    assert!(host.unacknowledged.is_empty(), "the answer acknowledges");
}

fn memchr_in(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|part| part == wanted)
}

#[test]
fn a_changed_frame_is_noticed_whatever_was_changed() {
    let (mut host, mut device) = pair();
    let frame = host.send(b"one").unwrap().remove(0);
    let changes: [fn(&mut Envelope); 9] = [
        |it| it.v = 2,
        |it| it.room.push('x'),
        |it| it.from = "d2".to_owned(),
        |it| it.to = "d2".to_owned(),
        |it| it.stream.push('x'),
        |it| it.ack = 7,
        |it| it.part = Some((0, 2)),
        |it| {
            let other = if it.ct.starts_with('A') { "B" } else { "A" };
            it.ct.replace_range(0..1, other);
        },
        |it| it.ct = "no base64".to_owned(),
    ];
    for (number, change) in changes.iter().enumerate() {
        let mut changed = read(&frame);
        change(&mut changed);
        assert_eq!(device.receive(&changed), Ok(Received::Tampered), "{number}");
    }
    // Under another number it is a gap, or does not open.
    let mut later = read(&frame);
    later.seq = 1;
    assert_eq!(device.receive(&later), Ok(Received::Gap));
    // The channel continues with the true one.
    assert_eq!(deliver(&mut device, &[frame]), [message("one")]);
    // A frame of one direction is none of the other.
    let mut own = read(&device.send(b"x").unwrap()[0]);
    std::mem::swap(&mut own.from, &mut own.to);
    own.seq = 1;
    assert_eq!(device.receive(&own), Ok(Received::Tampered));
}

#[test]
fn replayed_reordered_and_lost_frames_are_noticed_and_made_good() {
    let (mut host, mut device) = pair();
    let frames: Vec<String> = ["a", "b", "c", "d"]
        .iter()
        .flat_map(|text| host.send(text.as_bytes()).unwrap())
        .collect();
    assert_eq!(deliver(&mut device, &frames[..1]), [message("a")]);
    assert_eq!(deliver(&mut device, &frames[..1]), [Received::Replayed]);
    // "b" is lost, "d" overtakes "c".
    let late = [frames[3].clone(), frames[2].clone()];
    assert_eq!(deliver(&mut device, &late), [Received::Gap, Received::Gap]);
    let Received::Again(again) = host.receive(&read(&device.ask_again())).unwrap() else {
        panic!("nothing is sent again");
    };
    assert_eq!(
        again,
        frames[1..],
        "the same bytes, so no nonce is used for two texts"
    );
    let all = ["b", "c", "d"].map(message);
    assert_eq!(deliver(&mut device, &again), all);
    assert_eq!(deliver(&mut device, &frames), vec![Received::Replayed; 4]);
}

#[test]
fn a_false_acknowledgement_loses_nothing() {
    let (mut host, mut device) = pair();
    let frame = host.send(b"a").unwrap().remove(0);
    // The relay claims that the device has everything, and that it wants nothing again.
    let mut forged = read(&device.ask_again());
    forged.ack = 1_000;
    assert_eq!(host.receive(&forged), Ok(Received::Again(Vec::new())));
    let mut sealed = read(&device.send(b"").unwrap()[0]);
    sealed.ack = 1_000;
    assert_eq!(host.receive(&sealed), Ok(Received::Tampered));
    assert_eq!(host.unacknowledged, [(0, frame)]);
}

#[test]
fn acknowledgements_are_sent_now_and_then_and_not_for_each_other() {
    let (mut host, mut device) = pair();
    for number in 0..8 {
        assert!(!device.owes(false), "{number}");
        let frames = host.send(b"x").unwrap();
        deliver(&mut device, &frames);
        assert!(device.owes(true));
    }
    assert!(device.owes(false));
    let acknowledgement = device.send(b"").unwrap();
    assert!(!device.owes(true));
    assert_eq!(deliver(&mut host, &acknowledgement), [Received::Nothing]);
    assert!(host.unacknowledged.is_empty());
    assert!(!host.owes(true), "two silent sides stay silent");
}

#[test]
fn a_side_that_is_not_answered_gives_up_and_begins_anew() {
    let (mut host, _) = pair();
    let ended = (0..=MOST_FRAMES).find_map(|_| host.send(b"x").err());
    assert_eq!(ended, Some(Broken::Overflow));
    let (mut host, _) = pair();
    let megabyte = vec![0; 1 << 20];
    let ended = (0..8).find_map(|_| host.send(&megabyte).err());
    assert_eq!(ended, Some(Broken::Overflow));
    let (mut host, _) = pair();
    assert_eq!(host.send(&vec![0; LONGEST + 1]), Err(Broken::TooLong));
}

#[test]
fn a_relay_that_only_sends_garbage_is_left() {
    let (mut host, mut device) = pair();
    let mut garbage = read(&host.send(b"x").unwrap()[0]);
    garbage.ct = STANDARD.encode([7; 40]);
    let ended = (0..200).find_map(|_| device.receive(&garbage).err());
    assert_eq!(ended, Some(Broken::Tampered));
}
