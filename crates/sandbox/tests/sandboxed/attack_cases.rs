//! The attacks: a name, whether it can be tried without a sandbox, and a script that succeeds if the attack does.

/// An attack.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// It does no harm beyond its own place, and must succeed there.
    pub(crate) control: bool,
    pub(crate) script: &'static str,
}

/// The beginning of scripts in Python.
pub(crate) const PRELUDE: &str = r#"import ctypes,os,sys,socket,fcntl
libc=ctypes.CDLL(None,use_errno=True)
def call(number,*values):
    return libc.syscall(ctypes.c_long(number),*[ctypes.c_long(value) if isinstance(value,int) else value for value in values])
def ok(result):
    sys.exit(0 if result>=0 else 1)
"#;

/// Attacks that Landlock alone does not stop; docs/sandbox.md says so.
pub(crate) const LIMITS_OF_LANDLOCK: &[&str] = &[
    "git-config-alias",
    "git-config-append",
    "git-config-command",
    "git-config-fsmonitor",
    "git-config-remove",
    "git-config-rename",
    "git-config-replace",
    "git-config-hard-link",
    "git-config-descriptor",
    "git-folder-rename",
    "git-folder-replace",
    "git-hook-change",
    "git-hook-mode",
    "git-hook-new",
    "git-hook-remove",
    "git-hooks-copy-over",
    "git-hooks-link",
    "git-hooks-remove",
    "git-hooks-rename",
    "git-commondir-new",
    "git-commondir-rename",
    "git-module-config",
    "git-module-hook",
    "git-module-rename",
    "git-modules-rename",
    "git-worktree-pointer",
    "git-worktree-rename",
    "git-worktree-config",
    "mcp-servers-new",
    "mcp-servers-rename",
    "other-settings-change",
    "other-settings-rename",
    "other-settings-link",
    "other-hooks-new",
    "own-settings-new",
    "own-settings-remove",
    "own-settings-rename",
    "process-descriptors",
    "process-limits",
    "process-priority",
    "secret-list",
    "secret-mode",
    "state-of-sandboxes",
    "write-mode",
    "write-owner",
    "write-times",
    "write-utimes",
    "write-xattr",
    "rights-bounding-admin",
];

const fn case(name: &'static str, control: bool, script: &'static str) -> Case {
    Case {
        name,
        control,
        script,
    }
}

pub(crate) const CASES: &[Case] = &[
    case("write-redirect", true, r##"echo x > $OUT/new"##),
    case("write-append", true, r##"echo x >> $OUT/file"##),
    case("write-truncate", true, r##": > $OUT/file"##),
    case("write-touch", true, r##"touch $OUT/new"##),
    case("write-times", true, r##"touch -d 2001-01-01 $OUT/file"##),
    case("write-mkdir", true, r##"mkdir $OUT/new"##),
    case("write-rm", true, r##"rm $OUT/file"##),
    case("write-rmdir", true, r##"rmdir $OUT/folder"##),
    case("write-move-out", true, r##"mv file $OUT/new"##),
    case("write-move-away", true, r##"mv $OUT/file moved"##),
    case("write-rename", true, r##"mv $OUT/file $OUT/other"##),
    case("write-copy", true, r##"cp file $OUT/new"##),
    case("write-install", true, r##"install -m 644 file $OUT/new"##),
    case("write-dd", true, r##"dd if=file of=$OUT/new"##),
    case("write-tee", true, r##"echo x | tee $OUT/new"##),
    case(
        "write-sed",
        true,
        r##"sed -i s/o/x/ $OUT/file && grep -q xutside $OUT/file"##,
    ),
    case("write-truncate-tool", true, r##"truncate -s 0 $OUT/file"##),
    case("write-fallocate", true, r##"fallocate -l 10 $OUT/new"##),
    case("write-fifo", true, r##"mkfifo $OUT/new"##),
    case("write-symlink", true, r##"ln -s /etc $OUT/new"##),
    case("write-hard-link-out", true, r##"ln file $OUT/new"##),
    case(
        "write-hard-link-in",
        true,
        r##"ln $OUT/file linked && echo x >> linked"##,
    ),
    case(
        "write-through-link",
        true,
        r##"ln -s $OUT link && echo x > link/new"##,
    ),
    case(
        "write-through-link-file",
        true,
        r##"ln -s $OUT/file link2 && echo x > link2"##,
    ),
    case("write-mode", true, r##"chmod 777 $OUT/file"##),
    case("write-owner", true, r##"chown $(id -u) $OUT/file"##),
    case(
        "write-tar",
        true,
        r##"tar -cf t.tar file && tar -xf t.tar -C $OUT && grep -q one $OUT/file"##,
    ),
    case("write-git", true, r##"git init -q $OUT/new"##),
    case("write-cd", true, r##"cd $OUT && echo x > new"##),
    case("write-parent", true, r##"echo x > ../out/new"##),
    case(
        "write-proc-root",
        true,
        r##"echo x > /proc/self/root$OUT/new"##,
    ),
    case(
        "write-proc-cwd",
        true,
        r##"cd / && echo x > /proc/self/cwd$OUT/new"##,
    ),
    case(
        "write-descriptor",
        true,
        r##"exec 5<$OUT/file && echo x > /proc/self/fd/5"##,
    ),
    case(
        "write-read-write",
        true,
        r##"exec 5<>$OUT/file && echo x >&5"##,
    ),
    case(
        "write-swap-link",
        false,
        r##"mkdir d; (for i in $(seq 200); do ln -sfn $OUT d/l; ln -sfn $WS d/l; done) & for i in $(seq 200); do echo x > d/l/swapped; done; wait; test -e $OUT/swapped"##,
    ),
    case(
        "write-python",
        true,
        r##"py "$PRELUDE
import os
open(os.environ['OUT']+'/new','w').write('x')""##,
    ),
    case(
        "write-tmpfile",
        true,
        r##"py "$PRELUDE
fd=os.open(os.environ['OUT'],os.O_TMPFILE|os.O_RDWR,0o600)
os.write(fd,b'x')""##,
    ),
    case(
        "write-mmap",
        true,
        r##"py "$PRELUDE
import mmap
f=open(os.environ['OUT']+'/file','r+b')
m=mmap.mmap(f.fileno(),0)
m[0:1]=b'X'
m.flush()""##,
    ),
    case(
        "write-xattr",
        true,
        r##"py "$PRELUDE
os.setxattr(os.environ['OUT']+'/file','user.x',b'y')""##,
    ),
    case(
        "write-exchange",
        true,
        r##"py "$PRELUDE
O=os.environ['OUT'].encode()
ok(call(316,-100,ctypes.c_char_p(O+b'/file'),-100,ctypes.c_char_p(O+b'/folder'),2))""##,
    ),
    case(
        "write-dirfd",
        true,
        r##"py "$PRELUDE
fd=os.open('/',os.O_RDONLY)
os.close(os.open(os.environ['OUT'][1:]+'/new',os.O_CREAT|os.O_WRONLY,0o600,dir_fd=fd))""##,
    ),
    case(
        "write-openat2",
        true,
        r##"py "$PRELUDE
how=(ctypes.c_uint64*3)(os.O_CREAT|os.O_WRONLY,0o600,0)
ok(call(437,-100,ctypes.c_char_p(os.environ['OUT'].encode()+b'/new'),how,24))""##,
    ),
    case(
        "write-utimes",
        true,
        r##"py "$PRELUDE
os.utime(os.environ['OUT']+'/file',(1,1))""##,
    ),
    case(
        "write-leaked-folder",
        false,
        r##"py "$PRELUDE
fd=os.open('.'+os.environ['OUT']+'/new',os.O_CREAT|os.O_WRONLY,0o600,dir_fd=77)""##,
    ),
    case("read-leaked-folder", false, r##"test -e /proc/self/fd/77"##),
    case(
        "chdir-leaked-folder",
        false,
        r##"py "$PRELUDE
os.fchdir(77)""##,
    ),
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
    case("home-bashrc", true, r##"echo x >> $HOME/.bashrc"##),
    case("home-new", true, r##"echo x > $HOME/.profile"##),
    case(
        "home-ssh-keys",
        true,
        r##"echo x >> $HOME/.ssh/authorized_keys"##,
    ),
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
        "git-hook-new",
        true,
        r##"printf x > .git/hooks/pre-commit"##,
    ),
    case(
        "git-hook-change",
        true,
        r##"echo x >> .git/hooks/existing"##,
    ),
    case("git-hook-mode", true, r##"chmod 700 .git/hooks/existing"##),
    case("git-hook-remove", true, r##"rm .git/hooks/existing"##),
    case("git-hooks-rename", true, r##"mv .git/hooks .git/hooks2"##),
    case("git-hooks-remove", true, r##"rm -rf .git/hooks"##),
    case(
        "git-hooks-link",
        true,
        r##"mkdir h && rm -rf .git/hooks && ln -s $WS/h .git/hooks"##,
    ),
    case(
        "git-hooks-copy-over",
        true,
        r##"mkdir h2 && printf x > h2/pre-commit && cp h2/pre-commit .git/hooks/"##,
    ),
    case("git-config-append", true, r##"printf x >> .git/config"##),
    case(
        "git-config-command",
        true,
        r##"git config core.hooksPath /tmp"##,
    ),
    case("git-config-alias", true, r##"git config alias.x '!true'"##),
    case(
        "git-config-fsmonitor",
        true,
        r##"git config core.fsmonitor true"##,
    ),
    case(
        "git-config-rename",
        true,
        r##"mv .git/config .git/config2"##,
    ),
    case(
        "git-config-replace",
        true,
        r##"cp .git/config c && mv -f c .git/config"##,
    ),
    case(
        "git-config-remove",
        true,
        r##"rm -f .git/config && test ! -e .git/config"##,
    ),
    case(
        "git-config-hard-link",
        true,
        r##"ln .git/config linked2 && echo x >> linked2"##,
    ),
    case(
        "git-config-descriptor",
        true,
        r##"exec 5<.git/config && echo '#' > /proc/self/fd/5"##,
    ),
    case("git-folder-rename", true, r##"mv .git git2"##),
    case(
        "git-folder-replace",
        true,
        r##"mv .git git3 && mkdir .git"##,
    ),
    case(
        "git-commondir-new",
        true,
        r##"mkdir -p evil && printf $WS/evil > .git/commondir && grep -q evil .git/commondir"##,
    ),
    case(
        "git-commondir-rename",
        true,
        r##"printf $WS/evil > cd && mv -f cd .git/commondir && grep -q evil .git/commondir"##,
    ),
    case(
        "git-module-config",
        true,
        r##"printf x >> .git/modules/sub/config"##,
    ),
    case(
        "git-module-hook",
        true,
        r##"printf x > .git/modules/sub/hooks/x"##,
    ),
    case(
        "git-module-rename",
        true,
        r##"mv .git/modules/sub .git/modules/sub2"##,
    ),
    case(
        "git-modules-rename",
        true,
        r##"mv .git/modules .git/modules2"##,
    ),
    case(
        "git-worktree-pointer",
        true,
        r##"printf x > .git/worktrees/wt/gitdir"##,
    ),
    case(
        "git-worktree-rename",
        true,
        r##"mv .git/worktrees/wt .git/worktrees/w2"##,
    ),
    case(
        "git-worktree-config",
        true,
        r##"git config extensions.worktreeConfig true && git config --worktree core.fsmonitor x"##,
    ),
    case(
        "own-settings-new",
        true,
        r##"mkdir -p .lathe && echo {} > .lathe/settings.json"##,
    ),
    case(
        "own-settings-rename",
        true,
        r##"mkdir -p .lathe; mv .lathe lathe2"##,
    ),
    case(
        "own-settings-remove",
        true,
        r##"mkdir -p .lathe; rmdir .lathe && mkdir .lathe && touch .lathe/x"##,
    ),
    case(
        "other-settings-change",
        true,
        r##"echo x >> .claude/settings.json"##,
    ),
    case("other-settings-rename", true, r##"mv .claude claude2"##),
    case(
        "other-settings-link",
        true,
        r##"ln -s settings.json .claude/settings.local.json"##,
    ),
    case("other-hooks-new", true, r##"mkdir .claude/hooks"##),
    case(
        "mcp-servers-new",
        true,
        r##"echo {} > .mcp.json && test -s .mcp.json"##,
    ),
    case(
        "mcp-servers-rename",
        true,
        r##"echo {} > m && mv -f m .mcp.json && test -s .mcp.json"##,
    ),
    case("secret-cat", true, r##"grep -q PRIVATE $HOME/.ssh/id_rsa"##),
    case("secret-list", true, r##"ls $HOME/.ssh | grep -q id_rsa"##),
    case(
        "secret-copy",
        true,
        r##"cp -r $HOME/.ssh copy && grep -rq PRIVATE copy"##,
    ),
    case(
        "secret-tar",
        true,
        r##"tar -cf s.tar $HOME/.ssh && grep -q PRIVATE s.tar"##,
    ),
    case("secret-grep", true, r##"grep -rq PRIVATE $HOME/"##),
    case(
        "secret-link",
        true,
        r##"ln -s $HOME/.ssh/id_rsa key && grep -q PRIVATE key"##,
    ),
    case(
        "secret-hard-link",
        true,
        r##"ln $HOME/.netrc key2 && grep -q PRIVATE key2"##,
    ),
    case(
        "secret-proc-root",
        true,
        r##"grep -q PRIVATE /proc/self/root$HOME/.ssh/id_rsa"##,
    ),
    case(
        "secret-first-root",
        false,
        r##"grep -q PRIVATE /proc/1/root$HOME/.ssh/id_rsa"##,
    ),
    case("secret-file", true, r##"grep -q PRIVATE $HOME/.netrc"##),
    case(
        "secret-move",
        true,
        r##"mv $HOME/.ssh $HOME/ssh && grep -rq PRIVATE $HOME/ssh"##,
    ),
    case(
        "secret-unmount",
        false,
        r##"umount $HOME/.ssh; grep -q PRIVATE $HOME/.ssh/id_rsa || exit 1"##,
    ),
    case(
        "secret-mode",
        true,
        r##"chmod 700 $HOME/.ssh && grep -q PRIVATE $HOME/.ssh/id_rsa"##,
    ),
    case(
        "cache-spoil",
        false,
        r##"echo evil > $HOME/.cargo/registry/crate && test -e $OUT/never"##,
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
        "set-user-id",
        true,
        r##"cp /bin/true s1 && chmod u+s s1 && test -u s1"##,
    ),
    case(
        "set-user-id-number",
        true,
        r##"cp /bin/true s2 && chmod 4755 s2"##,
    ),
    case(
        "set-group-id",
        true,
        r##"cp /bin/true s3 && chmod 2755 s3"##,
    ),
    case(
        "set-user-id-install",
        true,
        r##"install -m 4755 /bin/true s4"##,
    ),
    case(
        "set-user-id-tar",
        true,
        r##"cp /bin/true s5; py "import tarfile; t=tarfile.open('s.tar','w'); i=t.gettarinfo('s5'); i.mode=0o4755; i.name='s6'; t.addfile(i,open('s5','rb')); t.close()" && tar -xpf s.tar && test -u s6"##,
    ),
    case(
        "set-user-id-open",
        true,
        r##"py "$PRELUDE
os.umask(0)
os.close(os.open('s7',os.O_CREAT|os.O_WRONLY,0o4755))
sys.exit(0 if os.stat('s7').st_mode & 0o4000 else 1)""##,
    ),
    case(
        "set-user-id-fchmod",
        true,
        r##"py "$PRELUDE
fd=os.open('s8',os.O_CREAT|os.O_WRONLY,0o755)
os.fchmod(fd,0o4755)""##,
    ),
    case(
        "set-user-id-fchmodat2",
        true,
        r##"py "$PRELUDE
open('s9','w').close()
ok(call(452,-100,ctypes.c_char_p(b's9'),0o4755,0))""##,
    ),
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
    case(
        "state-of-sandboxes",
        false,
        r##"ls $(dirname $HOME)/state/run-*"##,
    ),
];
