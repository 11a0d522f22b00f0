# Written for each release by packaging/render, which fills in the version and the sums.
class Lathe < Formula
  desc "Terminal agent harness: one native binary around a language model"
  homepage "https://github.com/lathe-dev/lathe"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/lathe-dev/lathe/releases/download/v@VERSION@/lathe-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256:aarch64-apple-darwin@"
    end
    on_intel do
      url "https://github.com/lathe-dev/lathe/releases/download/v@VERSION@/lathe-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256:x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/lathe-dev/lathe/releases/download/v@VERSION@/lathe-@VERSION@-aarch64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256:aarch64-unknown-linux-gnu@"
    end
    on_intel do
      url "https://github.com/lathe-dev/lathe/releases/download/v@VERSION@/lathe-@VERSION@-x86_64-unknown-linux-gnu.tar.gz"
      sha256 "@SHA256:x86_64-unknown-linux-gnu@"
    end
  end

  def install
    bin.install "lathe"
    man1.install "lathe.1"
    bash_completion.install "completions/lathe.bash" => "lathe"
    zsh_completion.install "completions/_lathe"
    fish_completion.install "completions/lathe.fish"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/lathe --version")
  end
end
