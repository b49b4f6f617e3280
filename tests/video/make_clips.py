"""Small clips of known pictures and sounds, for test_video_clips.c, which knows the same formulas.

    python3 make_clips.py FOLDER

Pictures go to the program ffmpeg as raw bytes and are kept without loss, so that what comes back can be compared byte by byte.
"""
import pathlib
import struct
import subprocess
import sys

import numpy as np

W, H, FPS, RATE = 48, 34, 10, 44100


def picture(k, w=W, h=H):
    y, x, c = np.meshgrid(np.arange(h), np.arange(w), np.arange(3), indexing="ij")
    return ((x * 5 + y * 11 + k * 37 + c * 83 + ((x * y * (k % 5)) >> 2)) & 255).astype(np.uint8)


def planes(k):
    """Luma and chroma of 8 bits, inside the limited range."""
    y, x = np.meshgrid(np.arange(H), np.arange(W), indexing="ij")
    return np.stack([16 + (x * 4 + y * 3 + k * 17) % 220, 90 + (x + k * 5) % 77, 90 + (y * 2 + k * 7) % 77]).astype(np.uint8)


def sound():
    i = np.arange(int(0.7 * RATE))
    left, right = (i * 37) % 20001 - 10000, (i * i // 64) % 10001 - 5000
    return np.stack([left, right], axis=1).astype("<i2")


def ffmpeg(folder, name, n_frames, args, shape=(W, H), fps=FPS, given="rgb24", frames=None, with_sound=False):
    raw = folder / "raw"
    raw.write_bytes(b"".join((frames(k) if frames else picture(k, *shape)).tobytes() for k in range(n_frames)))
    size = f"{shape[0]}x{shape[1]}"
    command = ["ffmpeg", "-v", "error", "-y", "-f", "rawvideo", "-pix_fmt", given, "-s", size, "-r", str(fps), "-i", str(raw)]
    if with_sound:
        (folder / "sound").write_bytes(sound().tobytes())
        command += ["-f", "s16le", "-ar", str(RATE), "-ac", "2", "-i", str(folder / "sound")]
    subprocess.run(command + ["-threads", "1"] + args + [str(folder / name)], check=True)


def turn(folder, source, name, matrix):
    """Another display matrix in the header of the track."""
    data = bytearray((folder / source).read_bytes())
    at = data.index(b"tkhd") + 44
    data[at:at + 36] = struct.pack(">9i", *(v << (30 if i % 3 == 2 else 16) for i, v in enumerate(matrix)))
    (folder / name).write_bytes(data)


def cut(folder, source, name, share):
    data = (folder / source).read_bytes()
    (folder / name).write_bytes(data[:int(len(data) * share)])


def lossless(folder):
    x264 = ["-c:v", "libx264rgb", "-qp", "0", "-preset", "ultrafast"]
    ffmpeg(folder, "ffv1.avi", 7, ["-c:v", "ffv1", "-pix_fmt", "bgr0"])
    ffmpeg(folder, "ffv1.mkv", 7, ["-c:v", "ffv1", "-pix_fmt", "bgr0"])
    ffmpeg(folder, "raw.avi", 7, ["-c:v", "rawvideo", "-pix_fmt", "bgr24"])
    ffmpeg(folder, "png.mkv", 7, ["-c:v", "png", "-pix_fmt", "rgb24"])
    ffmpeg(folder, "png.mp4", 7, ["-c:v", "png", "-pix_fmt", "rgb24"])
    ffmpeg(folder, "h264.mp4", 7, x264 + ["-bf", "2"])
    ffmpeg(folder, "h264.ts", 7, x264 + ["-bf", "2"])
    ffmpeg(folder, "h264.h264", 7, x264 + ["-bf", "0"])
    ffmpeg(folder, "vp9.webm", 7, ["-c:v", "libvpx-vp9", "-lossless", "1", "-pix_fmt", "gbrp"])
    ffmpeg(folder, "one.avi", 1, ["-c:v", "ffv1", "-pix_fmt", "bgr0"])
    ffmpeg(folder, "two.mp4", 2, x264)
    # Without length and index, as a recorder leaves it that was switched off.
    ffmpeg(folder, "live.mkv", 7, ["-c:v", "ffv1", "-pix_fmt", "bgr0", "-live", "1", "-f", "matroska"])
    # Many groups of pictures, of which few are needed; in the open ones the first frames shown refer to the group before.
    ffmpeg(folder, "groups.mp4", 300, x264 + ["-g", "5", "-bf", "2", "-movflags", "+faststart"], fps=30)
    ffmpeg(folder, "open.mkv", 300, x264 + ["-x264-params", "open-gop=1:keyint=6:bframes=2:b-adapt=0:scenecut=0"], fps=30)
    # Shown at 0, 0.1, 0.2, 1.2 and 2.2 s.
    times = "setpts='round(if(lt(N,3),N,10*N-18)/10/TB)'"
    ffmpeg(folder, "variable.mkv", 5, ["-vf", times, "-fps_mode", "passthrough", "-c:v", "ffv1", "-pix_fmt", "bgr0"])
    ffmpeg(folder, "forty.mkv", 40, ["-c:v", "ffv1", "-pix_fmt", "bgr0", "-level", "3", "-slicecrc", "1"])
    ffmpeg(folder, "forty_png.mkv", 40, ["-c:v", "png", "-pix_fmt", "rgb24"])
    ffmpeg(folder, "wide.mkv", 2, ["-c:v", "ffv1", "-pix_fmt", "bgr0", "-aspect", "48:17"])
    ffmpeg(folder, "big.avi", 40, ["-c:v", "rawvideo", "-pix_fmt", "bgr24"], shape=(320, 240))


def turned(folder):
    for name, (a, b, c, d) in {"right": (0, 1, -1, 0), "half": (-1, 0, 0, -1), "left": (0, -1, 1, 0), "mirror": (-1, 0, 0, 1),
                               "across": (0, 1, 1, 0), "sheared": (1, 1, 0, 1)}.items():
        turn(folder, "two.mp4", f"{name}.mp4", (a, b, 0, c, d, 0, 0, 0, 1))
    data = bytearray((folder / "two.mp4").read_bytes())
    at = data.index(b"tkhd") + 44
    data[at:at + 16] = struct.pack(">4i", 46341, 46341, 0, -46341)  # 45 degrees
    (folder / "askew.mp4").write_bytes(data)


def coloured(folder):
    for name, matrix, colour_range in (("bt601", "smpte170m", "tv"), ("bt709", "bt709", "tv"), ("full709", "bt709", "pc"),
                                       ("plain", None, None)):
        tags = ["-colorspace", matrix, "-color_range", colour_range] if matrix else []
        ffmpeg(folder, f"{name}.mkv", 2, ["-c:v", "ffv1", "-pix_fmt", "yuv444p"] + tags, given="yuv444p", frames=planes)
    # Chroma at half the size, and loss: what ffmpeg's own accurate conversion gives is written beside it.
    accurate = ["-sws_flags", "bicubic+accurate_rnd+full_chroma_int+full_chroma_inp", "-pix_fmt", "rgb24", "-f", "rawvideo"]
    for name, codec in {"lossy.mp4": ["libx264", "-pix_fmt", "yuv420p", "-preset", "veryfast"],
                        "lossy.avi": ["mpeg4", "-bf", "2", "-q:v", "4"],
                        "lossy.webm": ["libvpx", "-b:v", "200k", "-auto-alt-ref", "1", "-lag-in-frames", "12"]}.items():
        clip = folder / name
        ffmpeg(folder, name, 50, ["-c:v"] + codec)
        subprocess.run(["ffmpeg", "-v", "error", "-y", "-threads", "1", "-i", str(clip), "-fps_mode", "passthrough"] + accurate +
                       [f"{clip}.rgb"], check=True)


def sounding(folder):
    ffmpeg(folder, "sound.mkv", 7, ["-c:v", "ffv1", "-pix_fmt", "bgr0", "-c:a", "pcm_s16le"], with_sound=True)
    ffmpeg(folder, "sound.avi", 7, ["-c:v", "ffv1", "-pix_fmt", "bgr0", "-c:a", "pcm_s16le"], with_sound=True)
    ffmpeg(folder, "flac.mkv", 7, ["-c:v", "ffv1", "-pix_fmt", "bgr0", "-c:a", "flac"], with_sound=True)
    ffmpeg(folder, "float.mkv", 7, ["-c:v", "ffv1", "-pix_fmt", "bgr0", "-c:a", "pcm_f32le"], with_sound=True)
    ffmpeg(folder, "aac.mkv", 7, ["-c:v", "ffv1", "-pix_fmt", "bgr0", "-c:a", "aac"], with_sound=True)
    subprocess.run(["ffmpeg", "-v", "error", "-y", "-cpuflags", "0", "-i", str(folder / "aac.mkv"), "-f", "f32le", str(folder / "aac.mkv.f32")],
                   check=True)
    ffmpeg(folder, "only_sound.mkv", 1, ["-map", "1:a", "-c:a", "flac"], with_sound=True)


def bad(folder):
    for source, share in (("ffv1.avi", 0.6), ("groups.mp4", 0.6), ("groups.mp4", 0.995), ("forty.mkv", 0.5), ("h264.mp4", 0.9)):
        cut(folder, source, f"cut_{int(share * 1000)}_{source}", share)
    for source in ("forty.mkv", "forty_png.mkv", "groups.mp4"):
        data = bytearray((folder / source).read_bytes())
        at = len(data) // 2
        for i in range(at, at + 40):
            data[i] ^= 0x5a
        (folder / f"damaged_{source}").write_bytes(data)
    (folder / "list.m3u8").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nffv1.avi\n#EXT-X-ENDLIST\n")
    (folder / "list.ffconcat").write_text("ffconcat version 1.0\nfile ffv1.avi\n")


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for part in (lossless, turned, coloured, sounding, bad):
        part(folder)
    for name in ("raw", "sound"):
        (folder / name).unlink()
    print(f"{len(list(folder.iterdir()))} files in {folder}")


main()
