//! Attacks on files outside of the workspace, and bits that outlive the sandbox.

use super::{Case, case};

pub(super) const FILES: &[Case] = &[
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
    case("home-bashrc", true, r##"echo x >> $HOME/.bashrc"##),
    case("home-new", true, r##"echo x > $HOME/.profile"##),
    case(
        "home-ssh-keys",
        true,
        r##"echo x >> $HOME/.ssh/authorized_keys"##,
    ),
    case(
        "cache-spoil",
        false,
        r##"echo evil > $HOME/.cargo/registry/crate && test -e $OUT/never"##,
    ),
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
        "state-of-sandboxes",
        false,
        r##"ls $(dirname $HOME)/state/run-*"##,
    ),
];
