//! Attacks on connections and sockets.

use super::{Case, case};

pub(super) const NETWORK: &[Case] = &[
    case(
        "network-shell",
        true,
        r##"exec 5<>/dev/tcp/127.0.0.1/$TCP"##,
    ),
    case(
        "network-tcp",
        true,
        r##"py "$PRELUDE
s=socket.create_connection(('127.0.0.1',int(os.environ['TCP'])),3)""##,
    ),
    case(
        "network-udp",
        true,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)
s.connect(('127.0.0.1',int(os.environ['UDP'])))
s.send(b'x')
import time
time.sleep(0.05)
s.send(b'y')""##,
    ),
    case(
        "network-out",
        false,
        r##"py "$PRELUDE
s=socket.socket()
s.settimeout(2)
s.connect(('192.0.2.1',80))""##,
    ),
    case(
        "network-out-udp",
        false,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM)
s.sendto(b'x',('192.0.2.1',53))""##,
    ),
    case(
        "network-out-six",
        false,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)
s.sendto(b'x',('2001:db8::1',53))""##,
    ),
    case(
        "network-names",
        false,
        r##"py "$PRELUDE
socket.getaddrinfo('example.com',80)""##,
    ),
    case(
        "network-raw",
        false,
        r##"py "$PRELUDE
socket.socket(socket.AF_INET,socket.SOCK_RAW,1)""##,
    ),
    case(
        "network-packet",
        false,
        r##"py "$PRELUDE
socket.socket(17,socket.SOCK_RAW,0)""##,
    ),
    case(
        "network-netlink",
        true,
        r##"py "$PRELUDE
socket.socket(16,socket.SOCK_RAW,9)""##,
    ),
    case(
        "network-netlink-events",
        true,
        r##"py "$PRELUDE
socket.socket(16,socket.SOCK_RAW,15)""##,
    ),
    case(
        "network-machine",
        false,
        r##"py "$PRELUDE
socket.socket(40,socket.SOCK_STREAM)""##,
    ),
    case(
        "network-crypto",
        false,
        r##"py "$PRELUDE
socket.socket(38,socket.SOCK_SEQPACKET,0)""##,
    ),
    case(
        "network-bluetooth",
        false,
        r##"py "$PRELUDE
socket.socket(31,socket.SOCK_RAW,1)""##,
    ),
    case(
        "network-xdp",
        false,
        r##"py "$PRELUDE
socket.socket(44,socket.SOCK_RAW,0)""##,
    ),
    case(
        "socket-path",
        true,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_UNIX)
s.connect(os.environ['OUT']+'/socket')""##,
    ),
    case(
        "socket-abstract",
        true,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_UNIX)
s.connect(chr(0)+os.environ['ABSTRACT'])""##,
    ),
    case(
        "socket-datagram",
        false,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)
s.connect(os.environ['OUT']+'/socket')""##,
    ),
    case(
        "socket-docker",
        false,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_UNIX)
s.connect('/var/run/docker.sock')""##,
    ),
    case(
        "socket-system-bus",
        false,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_UNIX)
s.connect('/run/dbus/system_bus_socket')""##,
    ),
    case(
        "socket-proxy",
        false,
        r##"py "$PRELUDE
s=socket.socket(socket.AF_UNIX)
s.connect('/run/lathe/proxy')""##,
    ),
    case(
        "network-interface",
        false,
        r##"ip link set lo down || ip link add x type dummy"##,
    ),
    case(
        "network-listen-taken",
        false,
        r##"py "$PRELUDE
s=socket.socket(); s.bind(('127.0.0.1',int(os.environ['TCP']))); s.listen(); sys.exit(1)""##,
    ),
];
