{
  description = "Lathe, a terminal agent harness";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "x86_64-darwin" "aarch64-darwin" ];
      each = function: nixpkgs.lib.genAttrs systems (system: function nixpkgs.legacyPackages.${system});
      manifest = (builtins.fromTOML (builtins.readFile ./Cargo.toml)).workspace.package;
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "lathe";
          version = manifest.version;
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          buildType = "dist";
          cargoBuildFlags = [ "-p" "lathe" ];
          # The tests need packages by name from the network.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            $out/bin/lathe man > lathe.1
            installManPage lathe.1
            installShellCompletion --cmd lathe \
              --bash <($out/bin/lathe completions bash) \
              --zsh <($out/bin/lathe completions zsh) \
              --fish <($out/bin/lathe completions fish)
          '';
          meta = {
            description = "Terminal agent harness: one native binary around a language model";
            homepage = manifest.repository;
            license = pkgs.lib.licenses.asl20;
            mainProgram = "lathe";
          };
        };
      });
    };
}
