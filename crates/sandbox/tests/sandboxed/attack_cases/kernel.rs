//! Attacks on the kernel: processes, devices, mounts, namespaces, rights, the helper itself.

use super::{Case, case};

pub(super) const KERNEL: &[Case] = &[
    case("system-etc-passwd", false, r##"echo >> /etc/passwd"##),
    case("system-etc-hosts", false, r##"echo >> /etc/hosts"##),
    case("system-etc-new", false, r##"echo >> /etc/lathe-attack"##),
    case(
        "system-usr-bin",
        false,
        r##"echo >> /usr/bin/lathe-attack"##,
    ),
    case(
        "system-usr-local",
        false,
        r##"echo >> /usr/local/bin/lathe-attack"##,
    ),
    case(
        "system-var-lib",
        false,
        r##"echo >> /var/lib/lathe-attack"##,
    ),
    case("system-opt", false, r##"echo >> /opt/lathe-attack"##),
    case("system-root", false, r##"echo >> /lathe-attack"##),
    case(
        "system-cron",
        false,
        r##"echo >> /etc/cron.d/lathe-attack"##,
    ),
    case(
        "system-profile",
        false,
        r##"echo >> /etc/profile.d/lathe-attack.sh"##,
    ),
    case("system-preload", false, r##"echo >> /etc/ld.so.preload"##),
    case("system-srv", false, r##"echo >> /srv/lathe-attack"##),
    case(
        "sys-file",
        false,
        r##"echo 1 > /sys/kernel/profiling || echo 0 > /sys/kernel/mm/ksm/run"##,
    ),
    case(
        "cgroup-folder",
        false,
        r##"mkdir /sys/fs/cgroup/lathe-attack"##,
    ),
    case(
        "process-kill",
        true,
        r##"kill -0 $VICTIM && kill -STOP $VICTIM && kill -CONT $VICTIM"##,
    ),
    case(
        "process-environment",
        true,
        r##"tr '\0' '\n' < /proc/$VICTIM/environ | grep -q VICTIM-SECRET"##,
    ),
    case("process-memory", false, r##"exec 5</proc/$VICTIM/mem"##),
    case("process-root", true, r##"ls /proc/$VICTIM/root/"##),
    case("process-descriptors", true, r##"ls /proc/$VICTIM/fd"##),
    case(
        "process-all-environments",
        true,
        r##"cat /proc/*/environ | tr '\0' '\n' | grep -q VICTIM-SECRET"##,
    ),
    case("process-priority", true, r##"renice -n 19 -p $VICTIM"##),
    case(
        "process-limits",
        true,
        r##"prlimit --pid $VICTIM --nofile=100:100"##,
    ),
    case(
        "process-trace",
        false,
        r##"py "$PRELUDE
v=int(os.environ['VICTIM'])
ok(call(101,16,v,0,0))""##,
    ),
    case(
        "process-read-memory",
        false,
        r##"py "$PRELUDE
v=int(os.environ['VICTIM'])
b=ctypes.create_string_buffer(8)
io=(ctypes.c_uint64*2)(ctypes.addressof(b),8)
ok(call(310,v,io,1,io,1,0))""##,
    ),
    case(
        "process-read-own-memory",
        true,
        r##"py "$PRELUDE
b=ctypes.create_string_buffer(8)
io=(ctypes.c_uint64*2)(ctypes.addressof(b),8)
ok(call(310,os.getpid(),io,1,io,1,0))""##,
    ),
    case(
        "process-trace-self",
        true,
        r##"py "$PRELUDE
ok(call(101,0,0,0,0))""##,
    ),
    case(
        "process-descriptor-of",
        false,
        r##"py "$PRELUDE
v=int(os.environ['VICTIM'])
fd=call(434,v,0)
ok(call(438,fd,0,0))""##,
    ),
    case(
        "helper-trace",
        false,
        r##"py "$PRELUDE
ok(call(101,16,1,0,0))""##,
    ),
    case(
        "helper-environment",
        false,
        r##"test -r /proc/1/environ && cat /proc/1/environ | grep -q PATH"##,
    ),
    case("helper-memory", false, r##"exec 5<>/proc/1/mem"##),
    case("helper-program", false, r##"exec 5>>/proc/1/exe"##),
    case(
        "helper-descriptors",
        false,
        r##"readlink /proc/1/fd/* | grep -q ."##,
    ),
    case("helper-kill", false, r##"kill -9 1; kill -0 1"##),
    case("enter-first", false, r##"nsenter -t 1 -m -p true"##),
    case("new-user", true, r##"unshare -U true"##),
    case("new-user-root", true, r##"unshare -Ur id"##),
    case("new-mount", true, r##"unshare -Um true"##),
    case("new-network", true, r##"unshare -Un true"##),
    case("new-process", true, r##"unshare -Upf true"##),
    case(
        "new-user-clone",
        true,
        r##"py "$PRELUDE
pid=call(56,0x10000000|17,0,0,0,0)
if pid==0: os._exit(0)
ok(pid)""##,
    ),
    case(
        "new-user-unshare",
        true,
        r##"py "$PRELUDE
ok(call(272,0x10000000))""##,
    ),
    case(
        "new-user-clone3",
        true,
        r##"py "$PRELUDE
args=(ctypes.c_uint64*11)(0x10000000,0,0,0,17)
pid=call(435,args,88)
if pid==0: os._exit(0)
ok(pid)""##,
    ),
    case(
        "new-mounts-unshare",
        true,
        r##"py "$PRELUDE
ok(call(272,0x10020000))""##,
    ),
    case(
        "enter-namespace",
        false,
        r##"py "$PRELUDE
fd=os.open('/proc/self/ns/net',os.O_RDONLY)
ok(call(308,fd,0))""##,
    ),
    case("mount-memory", false, r##"mount -t tmpfs none /mnt"##),
    case(
        "mount-remount-root",
        false,
        r##"mount -o remount,bind,rw / && touch /lathe-attack"##,
    ),
    case(
        "mount-remount-out",
        false,
        r##"mount -o remount,bind,rw $OUT; echo x > $OUT/new"##,
    ),
    case("mount-bind", false, r##"mkdir -p b && mount --bind / b"##),
    case(
        "mount-proc",
        false,
        r##"mkdir -p pr && mount -t proc proc pr"##,
    ),
    case("unmount-hooks", false, r##"umount -l .git/hooks"##),
    case(
        "mount-new-api",
        false,
        r##"py "$PRELUDE
ok(call(430,ctypes.c_char_p(b'tmpfs'),0))""##,
    ),
    case(
        "mount-tree",
        false,
        r##"py "$PRELUDE
ok(call(428,-100,ctypes.c_char_p(b'/'),1))""##,
    ),
    case(
        "mount-attributes",
        false,
        r##"py "$PRELUDE
a=(ctypes.c_uint64*4)(0,1,0,0)
ok(call(442,-100,ctypes.c_char_p(b'/'),0,a,32))""##,
    ),
    case(
        "pivot",
        false,
        r##"py "$PRELUDE
ok(call(155,ctypes.c_char_p(b'/'),ctypes.c_char_p(b'/')))""##,
    ),
    case("chroot", false, r##"chroot / true"##),
    case("device-block", false, r##"mknod dev b 8 0"##),
    case("device-character", false, r##"mknod dev2 c 1 1"##),
    case(
        "rights-effective",
        false,
        r##"grep -qE 'CapEff:[[:space:]]*0*[1-9a-f]' /proc/self/status && ! grep -qE 'CapEff:[[:space:]]*000000000000000b' /proc/self/status"##,
    ),
    case(
        "rights-bounding-admin",
        false,
        r##"py "import re; b=int(re.search('CapBnd:\\s*(\\w+)',open('/proc/self/status').read()).group(1),16); raise SystemExit(0 if b & ~0xb else 1)""##,
    ),
    case(
        "new-privileges",
        true,
        r##"grep -q 'NoNewPrivs:[[:space:]]*0' /proc/self/status"##,
    ),
    case("become-root", false, r##"su -c true || sudo -n true"##),
    case(
        "rights-take",
        false,
        r##"py "$PRELUDE
h=(ctypes.c_uint32*2)(0x20080522,0)
d=(ctypes.c_uint32*6)(0xffffffff,0xffffffff,0,0,0,0)
ok(call(126,h,d))""##,
    ),
    case(
        "kernel-keys",
        true,
        r##"py "$PRELUDE
ok(call(250,0,-3,1,0,0))""##,
    ),
    case(
        "kernel-add-key",
        true,
        r##"py "$PRELUDE
ok(call(248,ctypes.c_char_p(b'user'),ctypes.c_char_p(b'k'),ctypes.c_char_p(b'v'),1,-3))""##,
    ),
    case(
        "kernel-bpf",
        false,
        r##"py "$PRELUDE
a=ctypes.create_string_buffer(120)
ok(call(321,0,a,120))""##,
    ),
    case(
        "kernel-perf",
        false,
        r##"py "$PRELUDE
a=ctypes.create_string_buffer(128)
ok(call(298,a,0,-1,-1,0))""##,
    ),
    case(
        "kernel-io-uring",
        true,
        r##"py "$PRELUDE
a=ctypes.create_string_buffer(120)
ok(call(425,4,a))""##,
    ),
    case(
        "kernel-userfaultfd",
        false,
        r##"py "$PRELUDE
ok(call(323,1))""##,
    ),
    case(
        "kernel-kexec",
        false,
        r##"py "$PRELUDE
ok(call(246,0,0,0,0))""##,
    ),
    case(
        "kernel-module",
        false,
        r##"py "$PRELUDE
ok(call(175,ctypes.c_char_p(b''),0,ctypes.c_char_p(b'')))""##,
    ),
    case(
        "kernel-log",
        false,
        r##"py "$PRELUDE
ok(call(103,10,0,0))""##,
    ),
    case(
        "kernel-clock",
        false,
        r##"py "$PRELUDE
t=(ctypes.c_long*2)(0,0)
ok(call(227,0,t))""##,
    ),
    case(
        "kernel-hostname",
        false,
        r##"py "$PRELUDE
ok(call(170,ctypes.c_char_p(b'attack'),6))""##,
    ),
    case(
        "kernel-accounting",
        false,
        r##"py "$PRELUDE
ok(call(163,0))""##,
    ),
    case(
        "kernel-swap",
        false,
        r##"py "$PRELUDE
ok(call(167,ctypes.c_char_p(b'/x'),0))""##,
    ),
    case(
        "kernel-ports",
        false,
        r##"py "$PRELUDE
ok(call(172,3))""##,
    ),
    case(
        "kernel-descriptor-table",
        true,
        r##"py "$PRELUDE
b=ctypes.create_string_buffer(16)
ok(call(154,0,b,16))""##,
    ),
    case(
        "kernel-fanotify",
        false,
        r##"py "$PRELUDE
ok(call(300,0x200,0))""##,
    ),
    case(
        "kernel-file-handle",
        false,
        r##"py "$PRELUDE
ok(call(304,-100,0,0))""##,
    ),
    case(
        "kernel-compare",
        true,
        r##"py "$PRELUDE
ok(call(312,os.getpid(),os.getpid(),0,0,1))""##,
    ),
    case(
        "kernel-quota",
        false,
        r##"py "$PRELUDE
ok(call(179,0x80000100,0,0,0))""##,
    ),
    case(
        "kernel-other-numbers",
        false,
        r##"py "$PRELUDE
r=call(0x40000000+39)
sys.exit(0 if r>0 else 1)""##,
    ),
    case(
        "kernel-older-gate",
        true,
        r##"py "$PRELUDE
import mmap
m=mmap.mmap(-1,4096,prot=7)
m.write(bytes([0xb8,20,0,0,0,0xcd,0x80,0xc3]))
f=ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))
sys.exit(0 if f()>0 else 1)""##,
    ),
    case(
        "kernel-core-pattern",
        false,
        r##"exec 5>/proc/sys/kernel/core_pattern"##,
    ),
    case(
        "kernel-sysctl",
        false,
        r##"echo 1 > /proc/sys/vm/drop_caches"##,
    ),
    case("kernel-request", false, r##"exec 5>/proc/sysrq-trigger"##),
    case("device-memory", false, r##"head -c 1 /dev/mem"##),
    case(
        "device-log",
        false,
        r##"test -c /dev/kmsg && exec 5>/dev/kmsg"##,
    ),
    case(
        "device-disk",
        false,
        r##"head -c 1 /dev/vda || head -c 1 /dev/sda || head -c 1 /dev/nvme0n1"##,
    ),
    case(
        "device-fuse",
        false,
        r##"test -c /dev/fuse && exec 5<>/dev/fuse"##,
    ),
    case(
        "device-loop",
        false,
        r##"test -c /dev/loop-control && exec 5<>/dev/loop-control"##,
    ),
    case(
        "terminal-type",
        false,
        r##"py "$PRELUDE
import pty
a,b=pty.openpty()
fcntl.ioctl(b,0x5412,b'x')""##,
    ),
    case(
        "terminal-console",
        false,
        r##"py "$PRELUDE
fcntl.ioctl(os.open('/dev/tty',os.O_RDWR),0x541c,b'x')""##,
    ),
    case(
        "terminal-of-others",
        false,
        r##"for t in /dev/pts/[0-9]*; do echo x > $t && exit 0; done; exit 1"##,
    ),
];
