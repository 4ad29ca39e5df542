# Installs branch main of the checkout that contains this recipe.
from pathlib import Path

from spack.package import *

try:  # Spack 1 keeps these among its packages, Spack 0 in spack.package.
    from spack_repo.builtin.build_systems.cmake import CMakePackage
    from spack_repo.builtin.build_systems.cuda import CudaPackage
except ImportError:
    pass


class Gptrain(CMakePackage, CudaPackage):
    """Trains GPT language models with one native program, from a laptop's CPU to many GPUs."""

    git = Path(__file__).resolve().parents[4].as_uri()

    version("main", branch="main")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("nlohmann-json")
    depends_on("cli11@2.1:")
    depends_on("yaml-cpp@0.7:")
    depends_on("sentencepiece")
    depends_on("zlib-api")
    depends_on("zstd")
    depends_on("libmicrohttpd")
    depends_on("onednn@2.6:")
    depends_on("hdf5@1.10:")
    depends_on("mpi")
    depends_on("catch2@2.13:", type="test")
    depends_on("cuda@12.8:", when="+cuda")
    depends_on("nccl@2.26:", when="+cuda")

    conflicts("%gcc@:11", msg="gptrain is written in C++20")
    requires("target=x86_64_v3:", msg="the CPU backend needs AVX2 and FMA")

    def cmake_args(self):
        args = [
            self.define_from_variant("GPTRAIN_CUDA", "cuda"),
            self.define("BUILD_TESTING", self.run_tests),
        ]
        if self.spec.satisfies("+cuda"):
            architectures = self.spec.variants["cuda_arch"].value
            if architectures != ("none",):
                args.append(self.define("GPTRAIN_CUDA_ARCHITECTURES", ";".join(architectures)))
        return args
